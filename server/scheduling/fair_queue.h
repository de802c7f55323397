// SPDX-License-Identifier: Apache-2.0
//
// Requests that may share a launch, in the order in which they join one: by
// priority, then by deficit round robin over clients. Which queue launches next
// is decided in batching_policy.h.

#ifndef QGEMM_SERVER_SCHEDULING_FAIR_QUEUE_H_
#define QGEMM_SERVER_SCHEDULING_FAIR_QUEUE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/types.h"
#include "server/scheduling/batching_policy.h"
#include "server/scheduling/drr_ring.h"
#include "server/scheduling/layer_sequence_predictor.h"

namespace qgemm {

// Recycles objects, so that a steady state allocates none. Not thread-safe.
// Owns its objects, as many as were ever out at a time.
template <typename T>
class ObjectPool {
 public:
  // Returns an object in its default state.
  T* Take() {
    if (free_.empty()) return &all_.emplace_back();
    T* const object = free_.back();
    free_.pop_back();
    return object;
  }

  void Return(T* object) {
    *object = T();
    free_.push_back(object);
  }

 private:
  std::deque<T> all_;
  std::vector<T*> free_;
};

// Binary heap of the waiting requests that have a deadline, the earliest first;
// its elements know their positions. Not thread-safe; borrows its elements.
class DeadlineHeap {
 public:
  // Null if empty.
  WaitingRequest* first() const {
    return heap_.empty() ? nullptr : heap_.front();
  }
  // InfiniteFuture if empty.
  absl::Time earliest() const {
    return heap_.empty() ? absl::InfiniteFuture() : DeadlineAt(0);
  }

  // Ignores a request without a deadline.
  void Push(WaitingRequest* waiting);
  // Ignores a request that is not in the heap.
  void Remove(WaitingRequest* waiting);

 private:
  absl::Time DeadlineAt(int64_t index) const {
    return heap_[index]->request->deadline;
  }
  void Put(WaitingRequest* waiting, int64_t index);
  void SiftUp(WaitingRequest* waiting, int64_t index);
  void SiftDown(WaitingRequest* waiting, int64_t index);

  std::vector<WaitingRequest*> heap_;
};

// Requests share a launch only if their keys are equal.
struct QueueKey {
  const ResidentWeights* weights = nullptr;  // compared, never read
  MatmulSignature signature;
  LaunchKind kind = LaunchKind::kMerged;

  friend bool operator==(const QueueKey& a, const QueueKey& b) {
    return a.weights == b.weights && a.signature == b.signature &&
           a.kind == b.kind;
  }
  template <typename H>
  friend H AbslHashValue(H h, const QueueKey& key) {
    return H::combine(std::move(h), key.weights, key.signature.a_type,
                      key.signature.c_type, key.signature.mode,
                      key.signature.rounding, key.kind);
  }
};

// Bounds of one batch. One request alone may have more rows.
struct BatchBounds {
  int64_t max_requests = 1;
  int64_t max_rows = 64;
};

// Exceptions to round robin and priorities for the head of a batch.
struct BatchHead {
  // Begins with the request of the earliest deadline, and with those before it
  // in its client queue.
  bool urgent = false;
  // Begins with a request of lower priority that has waited since then or
  // longer, unless the batch before began with one.
  absl::Time aged_before = absl::InfinitePast();
};

// Not thread-safe. Borrows waiting requests and client queues.
class FairQueue {
 public:
  FairQueue(const QueueKey& key, ObjectPool<ClientQueue>* client_queues)
      : key_(key), client_queues_(client_queues) {}
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  const QueueKey& key() const { return key_; }
  bool empty() const { return requests_ == 0; }
  int64_t requests() const { return requests_; }
  int64_t rows() const { return rows_; }
  // The request that has waited longest; null if empty.
  WaitingRequest* oldest() const { return by_age_.front(); }
  static WaitingRequest* NextByAge(const WaitingRequest* waiting) {
    return ByAge::Next(waiting);
  }
  const DeadlineHeap& deadlines() const { return deadlines_; }
  Priority highest_priority() const;

  // Inserts the request behind all others of its client.
  void Push(WaitingRequest* waiting);
  // Inserts a request that has computed rows before all others of its client.
  void PushUnfinished(WaitingRequest* waiting);
  // Removes the request from all orders.
  void Remove(WaitingRequest* waiting);

  // Appends the next batch, in its order, to `batch`; its requests stay counted
  // here until Launched or Restore. Removes cancelled requests and appends them
  // to `cancelled`.
  void TakeBatch(const BatchBounds& bounds, const BatchHead& head,
                 std::vector<WaitingRequest*>* batch,
                 std::vector<WaitingRequest*>* cancelled);
  // Ends a request's time in a batch: Launched removes it, Restore returns it
  // to its old position. Restore in the reverse order of the batch.
  void Launched(WaitingRequest* waiting);
  void Restore(WaitingRequest* waiting);

  // The layer as the predictor sees it.
  SequenceLayer* layer() { return &layer_; }

  // Owner's index of the queue among those that are not empty, or -1.
  int64_t active_index = -1;

 private:
  static constexpr int kPriorities = 3;

  using ByAge = IntrusiveList<WaitingRequest, &WaitingRequest::by_age>;

  // A batch while it is put together.
  struct BatchFill {
    BatchBounds left;
    std::vector<WaitingRequest*>* batch;
    std::vector<WaitingRequest*>* cancelled;
  };

  // Rows that a request costs its client's deficit: a chunk of a large request
  // costs one quantum.
  int64_t CostRows(const WaitingRequest& waiting) const {
    return key_.kind == LaunchKind::kChunk ? DrrRing::kQuantumRows
                                           : waiting.request->m;
  }
  DrrRing& RingOf(Priority priority) {
    return rings_[static_cast<int>(priority)];
  }
  // Returns the request's client queue; makes it if there is none.
  ClientQueue* ClientQueueOf(const WaitingRequest& waiting);
  void LeaveClientQueue(WaitingRequest* waiting);
  void Count(WaitingRequest* waiting);
  void Uncount(WaitingRequest* waiting);

  // False if the request, the first of its client queue, does not fit: the
  // batch is closed.
  bool Take(WaitingRequest* waiting, BatchFill* fill);
  void TakeHead(const BatchHead& head, BatchFill* fill);

  const QueueKey key_;
  ObjectPool<ClientQueue>* const client_queues_;
  std::array<DrrRing, kPriorities> rings_;  // by priority
  absl::flat_hash_map<std::pair<const ClientState*, Priority>, ClientQueue*>
      queue_of_client_;
  ByAge by_age_;
  DeadlineHeap deadlines_;
  SequenceLayer layer_;
  int64_t requests_ = 0;
  int64_t rows_ = 0;
  bool began_aged_ = false;  // the last batch
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_FAIR_QUEUE_H_
