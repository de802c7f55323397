// SPDX-License-Identifier: Apache-2.0
//
// Queue between the transport and the device: admits requests within bounds and
// submits the next batch to a sink while fewer than the allowed number of
// launches are in flight. Decisions are in launch_planner.h; the lock, the
// clock and the submission are here.

#ifndef QGEMM_SERVER_SCHEDULING_BATCH_SCHEDULER_H_
#define QGEMM_SERVER_SCHEDULING_BATCH_SCHEDULER_H_

#include <memory>
#include <optional>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "server/metrics/server_metrics.h"
#include "server/scheduling/gemm_request.h"
#include "server/scheduling/launch_planner.h"

namespace qgemm {

// Runs closed batches, within Submit or later, on any thread:
// - computes the rows in each request's state.in_launch and advances it;
// - completes every request that has no rows left or whose launch failed;
// - calls `finished` once, at the end of the launch, with the request that has
//   rows left, if any; such a request is alone in its batch. Completions may
//   run after that.
// The batch is not empty.
class BatchSink {
 public:
  using Finished =
      absl::AnyInvocable<void(std::optional<ScheduledRequest> unfinished)>;

  virtual ~BatchSink() = default;
  virtual void Submit(ClosedBatch batch, Finished finished) = 0;
};

// Thread-safe.
// - The sink is called by the thread that made a launch possible, a caller of
//   Enqueue, the end of another launch or that of a wait, one at a time. It
//   must not block that thread, except for a batch whose hint permits it: it
//   may be submitted beside another.
// - A request that expired or whose caller went away never reaches the sink. It
//   completes with DEADLINE_EXCEEDED when the next launch starts, or with
//   CANCELLED when it would launch, and with either when the queue is full.
// - No `done` runs under a lock of the scheduler, so it may enqueue again. It
//   must neither drain nor destroy the scheduler.
class BatchScheduler {
 public:
  // `sink`, `clock` and `metrics` must outlive the scheduler.
  BatchScheduler(const SchedulerOptions& options, BatchSink* sink,
                 const Clock* clock, ServerMetrics* metrics);
  // Drains without a deadline.
  ~BatchScheduler();

  // Returns OK if Enqueue would take such a request now, else the error that it
  // would complete with, counted as refused. Saves the caller the work of
  // copying a request that has no room.
  absl::Status CheckRoom(const QueueDemand& demand);

  // Takes the request; its `done` runs exactly once, also on an error:
  // RESOURCE_EXHAUSTED (a bound or quota is full), INVALID_ARGUMENT (the
  // request alone is beyond one) or UNAVAILABLE (draining).
  void Enqueue(std::unique_ptr<AdmittedRequest> request);

  // Takes requests that came together, which may share a launch. Leaves null
  // pointers.
  void EnqueueAll(absl::Span<std::unique_ptr<AdmittedRequest>> requests);

  // Starts no launch until `until`; requests are queued meanwhile, and launches
  // in flight go on. Of several holds the latest end counts. A drain ends all
  // holds and refuses new ones.
  void HoldLaunches(absl::Time until);

  // Refuses new requests with UNAVAILABLE; queued ones still run. Returns when
  // nothing is queued or in flight (a sink may still be completing requests of
  // the last launches), or at `deadline`. Requests queued at the deadline
  // complete with UNAVAILABLE, a large request after its current chunk;
  // launches in flight go on.
  void Drain(absl::Time deadline);

 private:
  class State;

  // Shared with launches in flight: the last `finished` may still be returning
  // when the scheduler is gone.
  const std::shared_ptr<State> state_;
  std::thread wait_ender_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_BATCH_SCHEDULER_H_
