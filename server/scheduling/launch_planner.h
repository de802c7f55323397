// SPDX-License-Identifier: Apache-2.0
//
// The scheduler's state and decisions: which requests may wait, in which queue,
// and what launches next. Threads, locks and the clock are in
// batch_scheduler.h, so that a simulation drives the same code.

#ifndef QGEMM_SERVER_SCHEDULING_LAUNCH_PLANNER_H_
#define QGEMM_SERVER_SCHEDULING_LAUNCH_PLANNER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/metrics/server_metrics.h"
#include "server/scheduling/batching_policy.h"
#include "server/scheduling/client_table.h"
#include "server/scheduling/fair_queue.h"
#include "server/scheduling/gemm_request.h"
#include "server/scheduling/layer_sequence_predictor.h"

namespace qgemm {

struct BatchingOptions {
  // 1 runs every request in launches of its own.
  int64_t max_requests = 1;
  // Bound of a batch; requests of more rows run in chunks.
  int64_t max_rows = 64;
  ChunkLimits chunks;
};

struct SchedulerOptions {
  int64_t max_queued_requests = 4096;
  int64_t max_queued_bytes = int64_t{1} << 30;  // a and c together
  // Quotas of one client's waiting requests; 0 = no quota.
  int64_t max_client_queued_rows = 0;
  int64_t max_client_queued_bytes = 0;
  int max_launches_in_flight = 2;
  int max_chunks_in_flight = 1;
  BatchingOptions batching;
  PolicyOptions policy;
};

// Requests that run in one launch: equal weights, equal signature, and the rows
// that each one's state.in_launch says.
struct ClosedBatch {
  std::vector<ScheduledRequest> requests;
  // kMayRunInline for one request of few rows while nothing else waits or runs:
  // the submitting thread may wait for its end.
  ExecutionHint hint = ExecutionHint::kAsync;
};

// A request's share of the queue's bounds.
struct QueueDemand {
  absl::string_view identity;
  absl::string_view client;
  int64_t rows = 0;
  int64_t operand_bytes = 0;
};

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

// A request that ends without a result, its error and its metric's label.
struct DroppedRequest {
  ScheduledRequest scheduled;
  absl::Status status;
  DropReason reason = DropReason::kCancelled;
};

struct PlannedLaunch {
  ClosedBatch batch;  // empty if nothing may launch
  LaunchKind kind = LaunchKind::kMerged;
};

// Not thread-safe.
class LaunchPlanner {
 public:
  explicit LaunchPlanner(const SchedulerOptions& options);
  ~LaunchPlanner();

  // Errors: RESOURCE_EXHAUSTED (the queue or the client's quota is full),
  // INVALID_ARGUMENT (the request alone is beyond them).
  Refusal CheckRoom(const QueueDemand& demand) const;

  // Queues the request; the caller has called CheckRoom.
  void Add(std::unique_ptr<AdmittedRequest> request);

  // Returns the next launch, if fewer than allowed are in flight. Appends to
  // `dropped` the requests that expired by `now`, and those that were due to
  // launch but whose caller has left.
  PlannedLaunch Next(absl::Time now, std::vector<DroppedRequest>* dropped);

  // Records the end of a launch. `unfinished` is the request of a chunk that
  // has rows left; it waits again.
  void LaunchEnded(LaunchKind kind, std::optional<ScheduledRequest> unfinished);

  // Removes all waiting requests that expired or whose caller left, and appends
  // them to `dropped`.
  void Sweep(absl::Time now, std::vector<DroppedRequest>* dropped);

  // Empties the queues.
  std::vector<ScheduledRequest> TakeAll();

  const QueueDepth& depth() const { return depth_; }
  int launches_in_flight() const { return launches_[0] + launches_[1]; }

 private:
  int& LaunchesOf(LaunchKind kind) { return launches_[static_cast<int>(kind)]; }
  Refusal CheckQuota(const QueueDemand& demand) const;
  FairQueue* QueueOf(const AdmittedRequest& request);
  // Updates active_ and snapshots_ after a change of the queue's contents.
  void Refresh(FairQueue* queue);
  void Deactivate(FairQueue* queue);
  void ForgetIdleQueues();

  // Adds the request to the totals, and takes it out of them after it has left
  // its queue.
  WaitingRequest* Count(ScheduledRequest scheduled);
  ScheduledRequest Release(WaitingRequest* waiting);

  void DropExpired(absl::Time now, std::vector<DroppedRequest>* dropped);
  void DropCancelled(std::vector<DroppedRequest>* dropped);
  std::optional<QueueChoice> ChooseQueue(absl::Time now);
  void TakeFrom(FairQueue* queue, const BatchHead& head);
  void CutBatch(FairQueue* queue);
  ClosedBatch CloseBatch(FairQueue* queue);
  RowRange RowsToLaunch(const ScheduledRequest& scheduled) const;

  const SchedulerOptions options_;
  ObjectPool<ClientQueue> client_queues_;
  ObjectPool<WaitingRequest> waiting_;
  ClientTable clients_;
  absl::flat_hash_map<QueueKey, std::unique_ptr<FairQueue>> queues_;
  std::vector<FairQueue*> active_;        // the queues that are not empty
  std::vector<QueueSnapshot> snapshots_;  // parallel to active_
  LayerSequencePredictor predictor_;
  QueueDepth depth_;
  int launches_[2] = {0, 0};  // in flight, by kind
  LaunchReason last_reason_ = LaunchReason::kPreferred;

  // Scratch of one decision; members so that they keep their memory.
  std::vector<WaitingRequest*> batch_;
  std::vector<WaitingRequest*> cancelled_;
  std::vector<int64_t> batch_rows_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_LAUNCH_PLANNER_H_
