// SPDX-License-Identifier: Apache-2.0
//
// Requests of one identity that may share a launch, in the order in which they
// join one: by priority, then by deficit round robin over its clients. How
// identities take turns is in fair_queue.h.

#ifndef QGEMM_SERVER_SCHEDULING_IDENTITY_QUEUE_H_
#define QGEMM_SERVER_SCHEDULING_IDENTITY_QUEUE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "server/scheduling/batching_policy.h"
#include "server/scheduling/drr_ring.h"
#include "server/scheduling/indexed_heap.h"
#include "server/scheduling/waiting_request.h"

namespace qgemm {

struct IdentityState;

// Recycles objects, so that a steady state allocates none. Not thread-safe.
// Owns its objects, as many as were ever out at a time.
template <typename T>
class ObjectPool {
 public:
  // Returns a new object, or one as it was returned.
  T* Take() {
    if (free_.empty()) return &all_.emplace_back();
    T* const object = free_.back();
    free_.pop_back();
    return object;
  }

  void Return(T* object) { free_.push_back(object); }

 private:
  std::deque<T> all_;
  std::vector<T*> free_;
};

// Waiting requests that have a deadline, the earliest first. Not thread-safe;
// borrows its elements, whose place in the heap is `kIndex`.
template <int64_t WaitingRequest::*kIndex>
class DeadlineHeapBy {
 public:
  // Null if empty.
  WaitingRequest* first() const { return heap_.first(); }
  // InfiniteFuture if empty.
  absl::Time earliest() const {
    return heap_.empty() ? absl::InfiniteFuture() : first()->request->deadline;
  }

  // Ignores a request without a deadline.
  void Push(WaitingRequest* waiting) {
    if (waiting->request->deadline == absl::InfiniteFuture()) return;
    heap_.Push(waiting);
  }
  // Ignores a request that is not in the heap.
  void Remove(WaitingRequest* waiting) { heap_.Remove(waiting); }

 private:
  struct Earlier {
    bool operator()(const WaitingRequest& a, const WaitingRequest& b) const {
      return a.request->deadline < b.request->deadline;
    }
  };

  IndexedHeap<WaitingRequest, kIndex, Earlier> heap_;
};

using DeadlineHeap = DeadlineHeapBy<&WaitingRequest::heap_index>;

// Exceptions to round robin and priorities for the head of a batch.
struct BatchHead {
  // Begins with the request of the earliest deadline, and with those before it
  // in its client queue.
  bool urgent = false;
  // Begins with a request of lower priority that has waited since then or
  // longer, unless the batch before began with one.
  absl::Time aged_before = absl::InfinitePast();
};

// The requests that a batch begins with: those of `client_queue` up to `last`.
struct BatchStart {
  ClientQueue* client_queue = nullptr;
  WaitingRequest* last = nullptr;
  bool aged = false;
};

// Not thread-safe. Borrows waiting requests. Reusable when it is empty: only
// what Bind sets is left over.
class IdentityQueue {
 public:
  IdentityQueue() = default;
  IdentityQueue(const IdentityQueue&) = delete;
  IdentityQueue& operator=(const IdentityQueue&) = delete;

  // Must be called before anything else; the queue is empty. All must outlive
  // its requests.
  void Bind(FairQueue* queue, IdentityState* identity, LaunchKind kind,
            ObjectPool<ClientQueue>* client_queues);

  FairQueue* queue() const { return queue_; }
  IdentityState* identity() const { return identity_; }
  bool empty() const { return requests_ == 0; }
  // True if a request waits that is not in a batch.
  bool has_next() const { return !queue_of_client_.empty(); }
  // The request that has waited longest; null if empty.
  WaitingRequest* oldest() const { return by_age_.front(); }
  static WaitingRequest* NextByAge(const WaitingRequest* waiting) {
    return ByAge::Next(waiting);
  }
  const DeadlineHeap& deadlines() const { return deadlines_; }
  Priority highest_priority() const;

  // Rows that a request costs a deficit: a chunk of a large request costs one
  // quantum.
  int64_t CostRows(const WaitingRequest& waiting) const {
    return kind_ == LaunchKind::kChunk ? kQuantumRows : waiting.request->m;
  }

  // The request to serve next; has_next() must hold.
  WaitingRequest* Next();
  // The requests that a batch begins with; has_next() must hold.
  BatchStart StartOf(const BatchHead& head);
  // Records how the batch began of which StartOf, or something else, decided.
  void Started(const BatchStart& start) { began_aged_ = start.aged; }

  // Inserts the request behind all others of its client, or one that has
  // computed rows before them.
  void Push(WaitingRequest* waiting);
  void PushUnfinished(WaitingRequest* waiting);
  // Removes the request from all orders.
  void Remove(WaitingRequest* waiting);

  // Moves a request into a batch, and out of it: Launched removes it, Restore
  // returns it to its old position.
  void Take(WaitingRequest* waiting);
  void Launched(WaitingRequest* waiting) { Uncount(waiting); }
  void Restore(WaitingRequest* waiting);

  // Owner's index of the queue among those that are not empty, or -1.
  int64_t active_index = -1;

  // Place in FairQueue's ring (drr_ring.h).
  int64_t deficit_rows = 0;
  bool has_quantum = false;
  bool has_turns = false;  // is in the ring
  ListLinks<IdentityQueue> in_ring;

 private:
  static constexpr int kPriorities = 3;

  using ByAge = IntrusiveList<WaitingRequest, &WaitingRequest::by_age>;

  DrrRing<ClientQueue>& RingOf(Priority priority) {
    return rings_[static_cast<int>(priority)];
  }
  // Returns the request's client queue; makes it if there is none.
  ClientQueue* ClientQueueOf(WaitingRequest* waiting);
  void LeaveClientQueue(WaitingRequest* waiting);
  void Count(WaitingRequest* waiting);
  void Uncount(WaitingRequest* waiting);

  FairQueue* queue_ = nullptr;
  IdentityState* identity_ = nullptr;
  LaunchKind kind_ = LaunchKind::kMerged;
  ObjectPool<ClientQueue>* client_queues_ = nullptr;
  std::array<DrrRing<ClientQueue>, kPriorities> rings_;  // by priority
  absl::flat_hash_map<std::pair<const ClientState*, Priority>, ClientQueue*>
      queue_of_client_;
  ByAge by_age_;
  DeadlineHeap deadlines_;
  int64_t requests_ = 0;     // those in a batch included
  bool began_aged_ = false;  // the last batch
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_IDENTITY_QUEUE_H_
