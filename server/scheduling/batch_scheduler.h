// SPDX-License-Identifier: Apache-2.0
//
// The queue between the transport and the device: admits requests within
// bounds and hands the next batch to a sink while fewer than the allowed
// number of launches are in flight. What runs next is decided in
// launch_planner.h; the lock, the clock and the handover are here.

#ifndef QGEMM_SERVER_SCHEDULING_BATCH_SCHEDULER_H_
#define QGEMM_SERVER_SCHEDULING_BATCH_SCHEDULER_H_

#include <memory>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "server/metrics/server_metrics.h"
#include "server/scheduling/gemm_request.h"
#include "server/scheduling/launch_planner.h"

namespace qgemm {

// Runs closed batches, within Submit or later, on any thread: computes of each
// request the rows of in_launch, moves in_launch behind them, and calls `done`
// of those that are complete or failed. When the launch has ended, `finished`,
// once, with the request that has rows left, if there is one; such a request is
// alone in its batch. The last `done` may come after that. The batch is not
// empty.
class BatchSink {
 public:
  using Finished =
      absl::AnyInvocable<void(std::unique_ptr<GemmRequest> unfinished)>;

  virtual ~BatchSink() = default;
  virtual void Submit(ClosedBatch batch, Finished finished) = 0;
};

// Thread-safe. The sink is called by whoever made a launch possible, a caller
// of Enqueue or the end of another launch, one thread at a time, and must not
// block it; only a batch that is alone may come beside another, and may have
// its thread wait for its end. Requests that expired or whose caller went away
// never reach the sink; they end with DEADLINE_EXCEEDED when the next launch
// starts or CANCELLED when their turn comes, or when the queue is full. No
// `done` runs under a lock of the scheduler's, so it may enqueue again; it must
// neither drain nor destroy the scheduler.
class BatchScheduler {
 public:
  // `sink`, `clock` and `metrics` must outlive the scheduler.
  BatchScheduler(const SchedulerOptions& options, BatchSink* sink,
                 const Clock* clock, ServerMetrics* metrics);
  // Drains without a deadline.
  ~BatchScheduler();

  // Whether such a request would be taken now: OK, or what Enqueue would end
  // it with, counted as refused. Spares a caller the work for a request that
  // has no room.
  absl::Status CheckRoom(const QueueDemand& demand);

  // Takes the request; its `done` runs exactly once from then on. On an error
  // the request comes to its end through `done` too, with RESOURCE_EXHAUSTED
  // (which bound or quota is full), INVALID_ARGUMENT (it is beyond them alone)
  // or UNAVAILABLE (draining).
  void Enqueue(std::unique_ptr<GemmRequest> request);

  // Starts no launch until then; requests are queued meanwhile, and launches in
  // flight go on. Of several holds the one that ends last counts. A drain ends
  // them, and none begins after it.
  void HoldLaunches(absl::Time until);

  // Refuses what comes later with UNAVAILABLE; what is queued still runs.
  // Returns when nothing is queued or in flight (a sink may still be ending
  // requests of the last launches), or at `deadline`: what is
  // still queued then ends with UNAVAILABLE, a large request in flight with the
  // chunk that it is in, and what else is in flight goes on.
  void Drain(absl::Time deadline);

 private:
  class State;

  // Shared with what is in flight: the last `finished` may still be returning
  // when the scheduler is gone.
  const std::shared_ptr<State> state_;
  std::thread hold_ender_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_BATCH_SCHEDULER_H_
