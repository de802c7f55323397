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
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/metrics/server_metrics.h"
#include "server/scheduling/batching_policy.h"
#include "server/scheduling/client_table.h"
#include "server/scheduling/dropped_request.h"
#include "server/scheduling/fair_queue.h"
#include "server/scheduling/gathering.h"
#include "server/scheduling/gemm_request.h"
#include "server/scheduling/identity_queue.h"
#include "server/scheduling/layer_sequence_predictor.h"
#include "server/scheduling/queue_admission.h"
#include "server/scheduling/waiting_request.h"

namespace qgemm {

struct SchedulerOptions : QueueLimits {
  int max_launches_in_flight = 2;
  int max_chunks_in_flight = 1;
  BatchingOptions batching;
  PolicyOptions policy;
};

// Requests that run in one launch: equal weights and equal signature, or one
// program with equal time_ops, and the rows that each one's state.in_launch
// says.
struct ClosedBatch {
  std::vector<ScheduledRequest> requests;
  // Not kAsync for requests of few rows that came together while nothing else
  // waits or runs: the submitting thread may compute them, and wait for one
  // that may wait.
  ExecutionHint hint = ExecutionHint::kAsync;
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

  // Errors: as CheckQueueRoom.
  Refusal CheckRoom(const QueueDemand& demand) const;

  // From here on no launch waits for requests that may come.
  void StopGathering() { gathers_ = false; }

  // Queues the request; the caller has called CheckRoom.
  void Add(std::unique_ptr<AdmittedRequest> request);

  // Returns the next launch, if fewer than allowed are in flight. Appends to
  // `dropped` the requests that expired by `now`, and those that were due to
  // launch but whose caller has left.
  PlannedLaunch Next(absl::Time now, std::vector<DroppedRequest>* dropped);
  // When Next may return a launch that waited for more requests at its last
  // call, if nothing happens until then; else InfiniteFuture.
  absl::Time next_look() const { return next_look_; }

  // Records the end of a launch. `unfinished` is the request of a chunk that
  // has rows left; it waits again.
  void LaunchEnded(LaunchKind kind, absl::Time now,
                   std::optional<ScheduledRequest> unfinished);

  // Removes all waiting requests that expired or whose caller left, and appends
  // them to `dropped`.
  void Sweep(absl::Time now, std::vector<DroppedRequest>* dropped);

  // Empties the queues.
  std::vector<ScheduledRequest> TakeAll();

  const QueueDepth& depth() const { return depth_; }
  int launches_in_flight() const { return launches_[0] + launches_[1]; }

 private:
  // The queues among which one decision chooses, and their snapshots.
  struct Candidates {
    absl::Span<IdentityQueue* const> queues;
    absl::Span<QueueSnapshot> snapshots;
  };
  // Start of the next launch, and the reason for it.
  struct Decision {
    BatchStart start;
    LaunchReason reason = LaunchReason::kPreferred;

    FairQueue* queue() const { return start.client_queue->queue->queue(); }
  };

  int& LaunchesOf(LaunchKind kind) { return launches_[static_cast<int>(kind)]; }
  // True if a launch that begins with the request starts beside no other, but
  // where it has all who are not in that.
  bool IsAlone(const WaitingRequest& first) const;
  // True if it may not start now.
  bool WaitsForOthers(const WaitingRequest& first) const;
  // Returns until when a launch that begins with it waits for requests that are
  // about to come; InfinitePast if it does not.
  absl::Time GathersUntil(const Decision& decision) const;
  FairQueue* QueueOf(const AdmittedRequest& request);
  void ForgetIdleQueues();

  // Adds the request to the totals, and takes it out of them after it has left
  // its queue.
  WaitingRequest* Count(ScheduledRequest scheduled, LaunchKind kind);
  ScheduledRequest Release(WaitingRequest* waiting);

  void DropExpired(absl::Time now, std::vector<DroppedRequest>* dropped);
  void DropCancelled(std::vector<DroppedRequest>* dropped);

  std::optional<Decision> Decide(absl::Time now);
  Candidates Gather();
  PolicyOptions PolicyFor(const Candidates& candidates, absl::Time now);
  // Replaces the decision by one for a client that was served less.
  void DecideFor(const ClientState& client, const DecisionContext& context,
                 const PolicyOptions& policy, Decision* decision);
  void TakeBatch(const Decision& decision);
  void CutBatch(FairQueue* queue);
  ClosedBatch CloseBatch();
  void ChargeBatch();
  void CountClients();
  RowRange RowsToLaunch(const ScheduledRequest& scheduled) const;

  const SchedulerOptions options_;
  QueuePools pools_;
  ObjectPool<WaitingRequest> waiting_;
  ClientTable clients_;
  absl::flat_hash_map<QueueKey, std::unique_ptr<FairQueue>> queues_;
  DeadlineHeapBy<&WaitingRequest::due_index> due_;
  LayerSequencePredictor predictor_;
  QueueDepth depth_;
  int launches_[2] = {0, 0};  // in flight, by kind
  RecentLaunches alone_;      // those that wait for others
  Gathering gathering_;
  bool gathers_ = true;
  absl::Time next_look_ = absl::InfiniteFuture();
  LaunchReason last_reason_ = LaunchReason::kPreferred;

  // Scratch of one decision; members so that they keep their memory.
  std::vector<IdentityState*> identities_;
  std::vector<IdentityQueue*> candidates_;
  std::vector<ClientQueue*> client_queues_;
  std::vector<QueueSnapshot> snapshots_;
  std::vector<WaitingRequest*> batch_;
  std::vector<WaitingRequest*> cancelled_;
  std::vector<int64_t> batch_rows_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_LAUNCH_PLANNER_H_
