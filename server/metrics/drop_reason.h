// SPDX-License-Identifier: Apache-2.0
//
// Why and where a request ended without a result, as docs/metrics.md explains
// it.

#ifndef QGEMM_SERVER_METRICS_DROP_REASON_H_
#define QGEMM_SERVER_METRICS_DROP_REASON_H_

#include <cstdint>

namespace qgemm {

enum class DropReason : uint8_t {
  kQueueFull,
  kQuota,
  kTooLarge,
  kDraining,
  kDeadline,
  kCancelled,
};

enum class DropStage : uint8_t {
  kAdmission,  // refused: it never waited
  kQueue,      // nothing of it was computed
  kChunks,     // between two launches of a large request
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_DROP_REASON_H_
