// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/dropped_request.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace qgemm {
namespace {

// Metric label of a dropped request.
DropStage StageOf(const ScheduledRequest& scheduled) {
  return scheduled.state.in_launch.first > 0 ? DropStage::kChunks
                                             : DropStage::kQueue;
}

}  // namespace

DroppedRequest Expired(ScheduledRequest scheduled, absl::Time now) {
  const AdmittedRequest& request = *scheduled.request;
  absl::Status status = absl::DeadlineExceededError(absl::StrCat(
      "the deadline passed ", absl::FormatDuration(now - request.deadline),
      " ago, after the request had waited ",
      absl::FormatDuration(now - scheduled.waiting_since()), " for a launch; ",
      scheduled.state.in_launch.first, " of ", request.m,
      " rows were computed; allow more time or send less"));
  return {std::move(scheduled), std::move(status), DropReason::kDeadline};
}

DroppedRequest Cancelled(ScheduledRequest scheduled) {
  return {std::move(scheduled), absl::CancelledError("the caller went away"),
          DropReason::kCancelled};
}

DroppedRequest DrainEnded(ScheduledRequest scheduled) {
  return {std::move(scheduled),
          absl::UnavailableError("the server stopped before the request was "
                                 "launched; retry on another replica"),
          DropReason::kDraining};
}

void CompleteAll(DroppedRequests dropped, ServerMetrics* metrics) {
  for (DroppedRequest& entry : dropped) {
    metrics->RequestDropped(entry.reason, StageOf(entry.scheduled));
    Complete(std::move(entry.scheduled), std::move(entry.status));
  }
}

}  // namespace qgemm
