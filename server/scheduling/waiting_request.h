// SPDX-License-Identifier: Apache-2.0
//
// A request that waits for a launch, with its place in each order that it is
// in, and the lists that keep those orders.

#ifndef QGEMM_SERVER_SCHEDULING_WAITING_REQUEST_H_
#define QGEMM_SERVER_SCHEDULING_WAITING_REQUEST_H_

#include <cstdint>

#include "server/scheduling/gemm_request.h"

namespace qgemm {

class FairQueue;
class IdentityQueue;
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

struct WaitingRequest : ScheduledRequest {
  ScheduledRequest& scheduled() { return *this; }

  ClientState* client = nullptr;
  IdentityQueue* queue = nullptr;
  ClientQueue* client_queue = nullptr;
  ListLinks<WaitingRequest> in_client_queue;
  ListLinks<WaitingRequest> by_age;
  int64_t heap_index = -1;  // in its queue's deadlines; -1: in none
  int64_t due_index = -1;   // in the deadlines of all
};

// Requests of one client at one priority of one IdentityQueue; in a ring and
// in its client's list while it is not empty.
struct ClientQueue {
  ClientState* client = nullptr;
  IdentityQueue* queue = nullptr;
  Priority priority = Priority::kNormal;
  IntrusiveList<WaitingRequest, &WaitingRequest::in_client_queue> requests;
  // Rows that the client may still take in this round; below zero after a
  // request that was served out of order.
  int64_t deficit_rows = 0;
  bool has_quantum = false;  // of this round
  ListLinks<ClientQueue> in_ring;
  ListLinks<ClientQueue> of_client;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_WAITING_REQUEST_H_
