// SPDX-License-Identifier: Apache-2.0
//
// Deficit round robin, counted in rows (Shreedhar and Varghese, "Efficient Fair
// Queuing Using Deficit Round Robin", 1995): over the identities of a queue,
// and over the clients of an identity.

#ifndef QGEMM_SERVER_SCHEDULING_DRR_RING_H_
#define QGEMM_SERVER_SCHEDULING_DRR_RING_H_

#include <cstdint>

#include "server/scheduling/waiting_request.h"

namespace qgemm {

// Rows added to a deficit in each round: a few decode requests, and few enough
// rounds until the largest request is served.
inline constexpr int64_t kQuantumRows = 8;

// Not thread-safe; borrows its members, all of which have a request to serve.
// Queue has deficit_rows, has_quantum and in_ring as ClientQueue has.
template <typename Queue>
class DrrRing {
 public:
  bool empty() const { return queues_.empty(); }

  // Inserts a member behind all others of this round, or before them.
  void Add(Queue* queue) { queues_.PushBack(queue); }
  void AddFront(Queue* queue) { queues_.PushFront(queue); }
  void Remove(Queue* queue) { queues_.Remove(queue); }

  // The member to serve next, where its next request costs cost_rows(queue) of
  // it; null if the ring is empty. Ends the round of members whose deficit is
  // spent.
  template <typename CostRows>
  Queue* Head(const CostRows& cost_rows) {
    while (!queues_.empty()) {
      Queue* const queue = queues_.front();
      if (!queue->has_quantum) {
        queue->has_quantum = true;
        queue->deficit_rows += kQuantumRows;
      }
      if (cost_rows(queue) <= queue->deficit_rows) return queue;
      queue->has_quantum = false;
      queues_.Remove(queue);
      queues_.PushBack(queue);
    }
    return nullptr;
  }

 private:
  IntrusiveList<Queue, &Queue::in_ring> queues_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_DRR_RING_H_
