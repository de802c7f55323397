// SPDX-License-Identifier: Apache-2.0
//
// Everything that the scheduler knows and decides: who may wait, what waits
// where, what launches next. Without threads, locks and clock, which are in
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
#include "server/metrics/drop_reason.h"
#include "server/scheduling/batching_policy.h"
#include "server/scheduling/client_table.h"
#include "server/scheduling/fair_queue.h"
#include "server/scheduling/gemm_request.h"
#include "server/scheduling/object_pool.h"
#include "server/scheduling/successors.h"

namespace qgemm {

struct BatchingOptions {
  // 1 runs every request in launches of its own.
  int64_t max_requests = 1;
  // Of a batch; requests of more rows are bulk.
  int64_t max_rows = 64;
  ChunkLimits chunks;
};

struct SchedulerOptions {
  int64_t max_queued_requests = 4096;
  int64_t max_queued_bytes = int64_t{1} << 30;  // of a and c together
  // Of one client's waiting requests; 0 = no quota.
  int64_t max_client_queued_rows = 0;
  int64_t max_client_queued_bytes = 0;
  int max_launches_in_flight = 2;
  int max_bulk_launches_in_flight = 1;
  BatchingOptions batching;
  PolicyOptions policy;
};

// Requests that run in one launch: equal weights, equal signature; of each the
// rows that its in_launch says.
struct ClosedBatch {
  std::vector<std::unique_ptr<GemmRequest>> requests;
  // One request of few rows, and nothing else waits or runs: who submits the
  // batch may as well wait for it.
  bool is_alone = false;
};

// What a request would add to what waits.
struct QueueDemand {
  absl::string_view client;
  int64_t rows = 0;
  int64_t operand_bytes = 0;
};

struct QueueDepth {
  int64_t requests = 0;
  int64_t rows = 0;
  int64_t bytes = 0;
};

// Why a request may not wait; OK if it may.
struct Refusal {
  absl::Status status;
  DropReason reason = DropReason::kQueueFull;
};

// A request that ends without a result: why, and under which metric.
struct DroppedRequest {
  std::unique_ptr<GemmRequest> request;
  absl::Status status;
  DropReason reason = DropReason::kCancelled;
};

struct PlannedLaunch {
  ClosedBatch batch;  // empty if nothing may launch
  LaunchFamily family = LaunchFamily::kDecode;
};

// Not thread-safe.
class LaunchPlanner {
 public:
  explicit LaunchPlanner(const SchedulerOptions& options);
  ~LaunchPlanner();

  // Errors: RESOURCE_EXHAUSTED (the queue or the client's quota is full),
  // INVALID_ARGUMENT (the request alone is beyond them).
  Refusal CheckRoom(const QueueDemand& demand) const;

  // The request waits from here on; CheckRoom is the caller's.
  void Add(std::unique_ptr<GemmRequest> request);

  // The next launch, if fewer than allowed are in flight. Appends to `dropped`
  // what expired by `now`, and what its caller left when its turn came.
  PlannedLaunch Next(absl::Time now, std::vector<DroppedRequest>* dropped);

  // A launch is over. `unfinished`, if it is not null, is the request of a bulk
  // launch with rows left, which waits again.
  void LaunchEnded(LaunchFamily family,
                   std::unique_ptr<GemmRequest> unfinished);

  // Appends all waiting requests that expired or whose caller left.
  void Sweep(absl::Time now, std::vector<DroppedRequest>* dropped);

  // Empties the queues.
  std::vector<std::unique_ptr<GemmRequest>> TakeAll();

  const QueueDepth& depth() const { return depth_; }
  int launches_in_flight() const { return launches_[0] + launches_[1]; }

 private:
  int& LaunchesOf(LaunchFamily family) {
    return launches_[static_cast<int>(family)];
  }
  Refusal CheckQuota(const QueueDemand& demand) const;
  FairQueue* QueueOf(const GemmRequest& request);
  // After a change of what waits in the queue: keeps active_ and snapshots_.
  void Refresh(FairQueue* queue);
  void Deactivate(FairQueue* queue);
  void ForgetIdleQueues();

  // Into what is counted, and out of it, when it is out of its queue.
  WaitingRequest* Count(std::unique_ptr<GemmRequest> request);
  std::unique_ptr<GemmRequest> Release(WaitingRequest* waiting);

  void DropExpired(absl::Time now, std::vector<DroppedRequest>* dropped);
  void DropCancelled(std::vector<DroppedRequest>* dropped);
  std::optional<QueueChoice> ChooseQueue(absl::Time now);
  void TakeFrom(FairQueue* queue, const FirstTurn& first);
  void CutBatch(FairQueue* queue);
  ClosedBatch CloseBatch(FairQueue* queue);
  RowRange RowsToLaunch(const GemmRequest& request) const;

  const SchedulerOptions options_;
  ObjectPool<ClientLane> lanes_;
  ObjectPool<WaitingRequest> waiting_;
  ClientTable clients_;
  absl::flat_hash_map<QueueKey, std::unique_ptr<FairQueue>> queues_;
  std::vector<FairQueue*> active_;        // those that are not empty
  std::vector<QueueSnapshot> snapshots_;  // of each of them
  Successors successors_;
  QueueDepth depth_;
  int launches_[2] = {0, 0};  // in flight, by family
  LaunchReason last_reason_ = LaunchReason::kPreferred;

  // Of one decision; members so that they keep their memory.
  std::vector<WaitingRequest*> batch_;
  std::vector<WaitingRequest*> cancelled_;
  std::vector<int64_t> batch_rows_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_LAUNCH_PLANNER_H_
