// SPDX-License-Identifier: Apache-2.0
//
// Decides which waiting requests form the next batch.
// Decisions only: queue, clock and threads are in batch_scheduler.h.

#ifndef QGEMM_SERVER_SCHEDULING_BATCHING_POLICY_H_
#define QGEMM_SERVER_SCHEDULING_BATCHING_POLICY_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/types.h"

namespace qgemm {

struct BatchingOptions {
  // 1 runs every request in a launch of its own.
  int64_t max_requests = 1;
  // Of a batch of more than one request; one request alone may have more.
  int64_t max_rows = 64;
};

// What the policy sees of a waiting request.
struct WaitingRequest {
  const ResidentWeights* weights = nullptr;
  MatmulSignature signature;
  int64_t rows = 0;
};

// How many requests at the head of the queue run in the next launch: the
// first, and those right behind it that share its weights and signature, within
// the options. First in, first out; 0 for an empty queue. Looks at no more
// than the first max_requests entries.
int64_t NextBatchSize(absl::Span<const WaitingRequest> queue,
                      const BatchingOptions& options);

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_BATCHING_POLICY_H_
