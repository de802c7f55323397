// SPDX-License-Identifier: Apache-2.0
//
// The queue between the transport and the device: admits requests within
// bounds and hands the next batch to a sink while fewer than the allowed
// number of launches are in flight. Which requests form the next batch is
// decided in batching_policy.h.

#ifndef QGEMM_SERVER_SCHEDULING_BATCH_SCHEDULER_H_
#define QGEMM_SERVER_SCHEDULING_BATCH_SCHEDULER_H_

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "server/metrics/server_metrics.h"
#include "server/scheduling/batching_policy.h"
#include "server/scheduling/gemm_request.h"

namespace qgemm {

// Requests that run in one launch: equal weights, equal signature.
struct ClosedBatch {
  std::vector<std::unique_ptr<GemmRequest>> requests;
};

// Runs closed batches; calls every request's `done`, then `finished` once, on
// any thread, within Submit or later. The batch is not empty.
class BatchSink {
 public:
  virtual ~BatchSink() = default;
  virtual void Submit(ClosedBatch batch,
                      absl::AnyInvocable<void()> finished) = 0;
};

struct SchedulerOptions {
  int64_t max_queued_requests = 4096;
  int64_t max_queued_bytes = int64_t{1} << 30;  // of a and c together
  int max_launches_in_flight = 2;
  BatchingOptions batching;
};

// Thread-safe. Owns one dispatcher thread, which calls the sink and must not be
// blocked by it. Requests that expired or whose caller went away never reach
// the sink; they end with DEADLINE_EXCEEDED or CANCELLED when their turn comes.
// No `done` runs under a lock of the scheduler's, so it may enqueue again; it
// must neither drain nor destroy the scheduler.
class BatchScheduler {
 public:
  // `sink`, `clock` and `metrics` must outlive the scheduler.
  BatchScheduler(const SchedulerOptions& options, BatchSink* sink,
                 const Clock* clock, ServerMetrics* metrics);
  // Drains without a deadline, then joins.
  ~BatchScheduler();

  // Takes the request; its `done` runs exactly once from then on. On an error
  // the request comes to its end through `done` too, with RESOURCE_EXHAUSTED
  // (which bound is full) or UNAVAILABLE (draining).
  void Enqueue(std::unique_ptr<GemmRequest> request);

  // Starts no launch until then; requests are queued meanwhile, and launches in
  // flight go on. Of several holds the one that ends last counts. A drain ends
  // them, and none begins after it.
  void HoldLaunches(absl::Time until);

  // Refuses what comes later with UNAVAILABLE; what is queued still runs.
  // Returns when nothing is queued or in flight, or at `deadline`: what is
  // still queued then ends with UNAVAILABLE, and what is in flight goes on.
  void Drain(absl::Time deadline);

 private:
  class State;

  // Shared with what is in flight: the last `finished` may still be returning
  // when the scheduler is gone.
  const std::shared_ptr<State> state_;
  std::thread dispatcher_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_BATCH_SCHEDULER_H_
