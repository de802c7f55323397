// SPDX-License-Identifier: Apache-2.0
//
// A client queue lives while it has a request that is not in a batch; it is in
// its ring and in its client's list all that time.

#include "server/scheduling/identity_queue.h"

#include "server/scheduling/client_table.h"

namespace qgemm {

void IdentityQueue::Bind(FairQueue* queue, IdentityState* identity,
                         LaunchKind kind,
                         ObjectPool<ClientQueue>* client_queues) {
  queue_ = queue;
  identity_ = identity;
  kind_ = kind;
  client_queues_ = client_queues;
  deficit_rows = 0;
  has_quantum = false;
  began_aged_ = false;
}

Priority IdentityQueue::highest_priority() const {
  int priority = kPriorities - 1;
  while (priority > 0 && rings_[priority].empty()) --priority;
  return static_cast<Priority>(priority);
}

WaitingRequest* IdentityQueue::Next() {
  const auto cost_rows = [this](const ClientQueue* queue) {
    return CostRows(*queue->requests.front());
  };
  return RingOf(highest_priority()).Head(cost_rows)->requests.front();
}

BatchStart IdentityQueue::StartOf(const BatchHead& head) {
  WaitingRequest* const urgent = deadlines_.first();
  if (head.urgent && urgent != nullptr) {
    return {urgent->client_queue, urgent, false};
  }
  ClientQueue* const oldest = by_age_.front()->client_queue;
  const bool aged = !began_aged_ && oldest->priority != highest_priority() &&
                    by_age_.front()->waiting_since() <= head.aged_before;
  if (aged) return {oldest, oldest->requests.front(), true};
  WaitingRequest* const next = Next();
  return {next->client_queue, next, false};
}

void IdentityQueue::Push(WaitingRequest* waiting) {
  waiting->queue = this;
  ClientQueueOf(waiting)->requests.PushBack(waiting);
  Count(waiting);
}

void IdentityQueue::PushUnfinished(WaitingRequest* waiting) {
  waiting->queue = this;
  ClientQueueOf(waiting)->requests.PushFront(waiting);
  Count(waiting);
}

void IdentityQueue::Remove(WaitingRequest* waiting) {
  LeaveClientQueue(waiting);
  Uncount(waiting);
}

void IdentityQueue::Take(WaitingRequest* waiting) {
  waiting->client_queue->deficit_rows -= CostRows(*waiting);
  LeaveClientQueue(waiting);
}

void IdentityQueue::Restore(WaitingRequest* waiting) {
  ClientQueue* const queue = ClientQueueOf(waiting);
  queue->requests.PushFront(waiting);
  DrrRing<ClientQueue>& ring = RingOf(queue->priority);
  ring.Remove(queue);
  ring.AddFront(queue);
  queue->has_quantum = true;
  queue->deficit_rows += CostRows(*waiting);
}

ClientQueue* IdentityQueue::ClientQueueOf(WaitingRequest* waiting) {
  const Priority priority = waiting->request->priority;
  ClientQueue*& queue = queue_of_client_[{waiting->client, priority}];
  if (queue == nullptr) {
    queue = client_queues_->Take();
    queue->client = waiting->client;
    queue->queue = this;
    queue->priority = priority;
    RingOf(priority).Add(queue);
    waiting->client->queues.PushBack(queue);
  }
  waiting->client_queue = queue;
  return queue;
}

void IdentityQueue::LeaveClientQueue(WaitingRequest* waiting) {
  ClientQueue* const queue = waiting->client_queue;
  waiting->client_queue = nullptr;
  queue->requests.Remove(waiting);
  if (!queue->requests.empty()) return;
  RingOf(queue->priority).Remove(queue);
  queue->client->queues.Remove(queue);
  queue_of_client_.erase({queue->client, queue->priority});
  *queue = ClientQueue();
  client_queues_->Return(queue);
}

void IdentityQueue::Count(WaitingRequest* waiting) {
  ++requests_;
  by_age_.PushBack(waiting);
  deadlines_.Push(waiting);
}

void IdentityQueue::Uncount(WaitingRequest* waiting) {
  --requests_;
  by_age_.Remove(waiting);
  deadlines_.Remove(waiting);
}

}  // namespace qgemm
