// SPDX-License-Identifier: Apache-2.0
//
// Deficit round robin over clients, counted in rows; first in first out within
// a client (Shreedhar and Varghese, "Efficient Fair Queuing Using Deficit Round
// Robin", 1995).

#ifndef QGEMM_SERVER_SCHEDULING_DRR_RING_H_
#define QGEMM_SERVER_SCHEDULING_DRR_RING_H_

#include <cstdint>

#include "server/scheduling/gemm_request.h"

namespace qgemm {

class FairQueue;
struct ClientQueue;
struct ClientState;

template <typename T>
struct ListLinks {
  T* previous = nullptr;
  T* next = nullptr;
};

// Doubly linked list through a member of its elements: an element may be in
// several lists, and no list allocates. Elements are owned elsewhere; one is in
// at most one list by the same links. Not thread-safe.
template <typename T, ListLinks<T> T::*kLinks>
class IntrusiveList {
 public:
  bool empty() const { return front_ == nullptr; }
  // Null if the list is empty.
  T* front() const { return front_; }
  static T* Next(const T* element) { return (element->*kLinks).next; }

  void PushBack(T* element) { Insert(back_, element, nullptr); }
  void PushFront(T* element) { Insert(nullptr, element, front_); }

  void Remove(T* element) {
    const ListLinks<T> links = element->*kLinks;
    NextOf(links.previous) = links.next;
    PreviousOf(links.next) = links.previous;
    element->*kLinks = {};
  }

 private:
  void Insert(T* previous, T* element, T* next) {
    element->*kLinks = {previous, next};
    NextOf(previous) = element;
    PreviousOf(next) = element;
  }
  T*& NextOf(T* element) {
    return element == nullptr ? front_ : (element->*kLinks).next;
  }
  T*& PreviousOf(T* element) {
    return element == nullptr ? back_ : (element->*kLinks).previous;
  }

  T* front_ = nullptr;
  T* back_ = nullptr;
};

// A request that waits for a launch, and its position in each order that its
// FairQueue keeps.
struct WaitingRequest : ScheduledRequest {
  ScheduledRequest& scheduled() { return *this; }

  ClientState* client = nullptr;
  FairQueue* queue = nullptr;
  ClientQueue* client_queue = nullptr;
  ListLinks<WaitingRequest> in_client_queue;
  ListLinks<WaitingRequest> by_age;
  int64_t heap_index = -1;  // in its queue's DeadlineHeap; -1: in none
};

// Requests of one client at one priority of one FairQueue; in a ring while it
// is not empty.
struct ClientQueue {
  const ClientState* client = nullptr;
  Priority priority = Priority::kNormal;
  IntrusiveList<WaitingRequest, &WaitingRequest::in_client_queue> requests;
  // Rows that the client may still take in this round; below zero after a
  // request that was served out of order.
  int64_t deficit_rows = 0;
  bool has_quantum = false;  // of this round
  ListLinks<ClientQueue> in_ring;
};

// Not thread-safe; borrows its client queues, none of which is empty.
class DrrRing {
 public:
  // Rows added to a client's deficit in each round: a few decode requests, and
  // few enough rounds until the largest request is served.
  static constexpr int64_t kQuantumRows = 8;

  bool empty() const { return queues_.empty(); }

  // Inserts a client queue behind all others of this round, or before them.
  void Add(ClientQueue* queue) { queues_.PushBack(queue); }
  void AddFront(ClientQueue* queue) { queues_.PushFront(queue); }
  void Remove(ClientQueue* queue) { queues_.Remove(queue); }

  // The request to serve next, where a request costs `cost_rows` of it; null
  // if the ring is empty. Ends the round of clients whose deficit is spent.
  template <typename CostRows>
  WaitingRequest* Head(const CostRows& cost_rows) {
    while (!queues_.empty()) {
      ClientQueue* const queue = queues_.front();
      if (!queue->has_quantum) {
        queue->has_quantum = true;
        queue->deficit_rows += kQuantumRows;
      }
      WaitingRequest* const head = queue->requests.front();
      if (cost_rows(*head) <= queue->deficit_rows) return head;
      queue->has_quantum = false;
      queues_.Remove(queue);
      queues_.PushBack(queue);
    }
    return nullptr;
  }

 private:
  IntrusiveList<ClientQueue, &ClientQueue::in_ring> queues_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_DRR_RING_H_
