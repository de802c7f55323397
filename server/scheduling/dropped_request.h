// SPDX-License-Identifier: Apache-2.0
//
// Requests that end without a result before they launch, or between two
// launches, and what their callers are told.

#ifndef QGEMM_SERVER_SCHEDULING_DROPPED_REQUEST_H_
#define QGEMM_SERVER_SCHEDULING_DROPPED_REQUEST_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/metrics/server_metrics.h"
#include "server/scheduling/gemm_request.h"

namespace qgemm {

// A request that ends without a result, its error and its metric's label.
struct DroppedRequest {
  ScheduledRequest scheduled;
  absl::Status status;
  DropReason reason = DropReason::kCancelled;
};
using DroppedRequests = std::vector<DroppedRequest>;

// The deadline passed before `now`.
DroppedRequest Expired(ScheduledRequest scheduled, absl::Time now);
// The caller went away.
DroppedRequest Cancelled(ScheduledRequest scheduled);
// A drain ended before the request launched.
DroppedRequest DrainEnded(ScheduledRequest scheduled);

// Counts the requests, and ends them.
void CompleteAll(DroppedRequests dropped, ServerMetrics* metrics);

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_DROPPED_REQUEST_H_
