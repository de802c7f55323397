// SPDX-License-Identifier: Apache-2.0
//
// Decides which requests may wait: the queue's bounds, the share of them that
// one identity may take, and quotas. Values in, value out.

#ifndef QGEMM_SERVER_SCHEDULING_QUEUE_ADMISSION_H_
#define QGEMM_SERVER_SCHEDULING_QUEUE_ADMISSION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/metrics/server_metrics.h"
#include "server/scheduling/gemm_request.h"

namespace qgemm {

struct QueueLimits {
  int64_t max_queued_requests = 4096;
  int64_t max_queued_bytes = int64_t{1} << 30;  // a and c together
  // Quotas of one identity's waiting requests; 0 = no quota.
  int64_t max_client_queued_rows = 0;
  int64_t max_client_queued_bytes = 0;
};

// A request's share of the queue's bounds.
struct QueueDemand {
  absl::string_view identity;
  absl::string_view client;
  int64_t rows = 0;
  int64_t operand_bytes = 0;
  ClientQueueQuota quota;  // of its identity
};

inline QueueDemand DemandOf(const AdmittedRequest& request) {
  return {request.identity, request.client, request.m, request.operand_bytes(),
          request.quota};
}

struct QueueDepth {
  int64_t requests = 0;
  int64_t rows = 0;
  int64_t bytes = 0;
};

// Result of an admission check: OK, or why the request may not wait.
struct Refusal {
  absl::Status status;
  DropReason reason = DropReason::kQueueFull;
};

// Checks the demand against what waits: of all, and of its identity (`own`). An
// identity may have as much waiting as room is left for all others, so that it
// alone fills half of the queue, and k of them leave a part in k + 1 free.
// Errors: RESOURCE_EXHAUSTED (the queue, the identity's share of it or its
// quota is full), INVALID_ARGUMENT (the request alone is beyond a bound).
Refusal CheckQueueRoom(const QueueDemand& demand, const QueueLimits& limits,
                       const QueueDepth& all, const QueueDepth& own);

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_QUEUE_ADMISSION_H_
