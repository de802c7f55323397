// SPDX-License-Identifier: Apache-2.0
//
// Requests that may share a launch, and in which order they take part: by
// priority, and in turns between clients. Which queue launches is decided in
// batching_policy.h.

#ifndef QGEMM_SERVER_SCHEDULING_FAIR_QUEUE_H_
#define QGEMM_SERVER_SCHEDULING_FAIR_QUEUE_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/types.h"
#include "server/scheduling/batching_policy.h"
#include "server/scheduling/deadline_heap.h"
#include "server/scheduling/intrusive_list.h"
#include "server/scheduling/lane_ring.h"
#include "server/scheduling/layer_place.h"
#include "server/scheduling/object_pool.h"
#include "server/scheduling/waiting_request.h"

namespace qgemm {

// What requests must have in common to share a launch.
struct QueueKey {
  const ResidentWeights* weights = nullptr;  // an identity alone
  MatmulSignature signature;
  LaunchFamily family = LaunchFamily::kDecode;

  friend bool operator==(const QueueKey& a, const QueueKey& b) {
    return a.weights == b.weights && a.signature == b.signature &&
           a.family == b.family;
  }
  template <typename H>
  friend H AbslHashValue(H h, const QueueKey& key) {
    return H::combine(std::move(h), key.weights, key.signature.a_type,
                      key.signature.c_type, key.signature.mode,
                      key.signature.rounding, key.family);
  }
};

// What one batch may hold. One request alone may have more rows.
struct BatchBounds {
  int64_t max_requests = 1;
  int64_t max_rows = 64;
};

// Who goes first, as an exception to turns and priorities.
struct FirstTurn {
  // The request of the earliest deadline and those before it in its lane.
  bool urgent = false;
  // A request of lower priority that waits since then or longer, if the batch
  // before did not begin with one.
  absl::Time aged_before = absl::InfinitePast();
};

// Not thread-safe. Borrows waiting requests and lanes.
class FairQueue {
 public:
  FairQueue(const QueueKey& key, ObjectPool<ClientLane>* lanes)
      : key_(key), lanes_(lanes) {}
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  const QueueKey& key() const { return key_; }
  bool empty() const { return requests_ == 0; }
  int64_t requests() const { return requests_; }
  int64_t rows() const { return rows_; }
  // The request that waits longest; null if empty.
  WaitingRequest* oldest() const { return by_age_.front(); }
  static WaitingRequest* NextByAge(const WaitingRequest* waiting) {
    return ByAge::Next(waiting);
  }
  const DeadlineHeap& deadlines() const { return deadlines_; }
  Priority highest_priority() const;

  // As the last of its client.
  void Push(WaitingRequest* waiting);
  // As the first of its client: a request whose rows are not all computed.
  void PushUnfinished(WaitingRequest* waiting);
  // Takes it out, wherever it is.
  void Remove(WaitingRequest* waiting);

  // Appends the next batch, in its order, to `batch`, whose requests stay
  // counted here until Launched or Restore. Cancelled ones go to `cancelled`
  // and are out.
  void TakeBatch(const BatchBounds& bounds, const FirstTurn& first,
                 std::vector<WaitingRequest*>* batch,
                 std::vector<WaitingRequest*>* cancelled);
  // The end of a request of a batch: it is out, or it goes back to where it
  // was. Those that go back do so in the reverse order of the batch.
  void Launched(WaitingRequest* waiting);
  void Restore(WaitingRequest* waiting);

  // The layer as a place of clients on their way (successors.h).
  LayerPlace* place() { return &place_; }

  // The owner's: the queue's place among those that are not empty, or -1.
  int64_t active_place = -1;

 private:
  static constexpr int kPriorities = 3;

  using ByAge = IntrusiveList<WaitingRequest, &WaitingRequest::by_age>;

  // A batch while it is put together.
  struct BatchFill {
    BatchBounds left;
    std::vector<WaitingRequest*>* batch;
    std::vector<WaitingRequest*>* cancelled;
  };

  // Rows by which a request uses up its client's turn: a chunk of a large one
  // is a turn of its own.
  int64_t CostRows(const WaitingRequest& waiting) const {
    return key_.family == LaunchFamily::kBulk ? LaneRing::kTurnRows
                                              : waiting.request->m;
  }
  LaneRing& RingOf(Priority priority) {
    return rings_[static_cast<int>(priority)];
  }
  // The lane that the request belongs in, made if there is none.
  ClientLane* LaneOf(const WaitingRequest& waiting);
  void LeaveLane(WaitingRequest* waiting);
  void Count(WaitingRequest* waiting);
  void Uncount(WaitingRequest* waiting);

  // False if the request, the first of its lane, does not fit: the batch ends.
  bool Take(WaitingRequest* waiting, BatchFill* fill);
  void TakeFirstTurn(const FirstTurn& first, BatchFill* fill);

  const QueueKey key_;
  ObjectPool<ClientLane>* const lanes_;
  std::array<LaneRing, kPriorities> rings_;  // by priority
  absl::flat_hash_map<std::pair<const QueueClient*, Priority>, ClientLane*>
      lane_of_;
  ByAge by_age_;
  DeadlineHeap deadlines_;
  LayerPlace place_;
  int64_t requests_ = 0;
  int64_t rows_ = 0;
  bool began_aged_ = false;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_FAIR_QUEUE_H_
