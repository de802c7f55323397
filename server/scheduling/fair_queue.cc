// SPDX-License-Identifier: Apache-2.0
//
// In the heap, the children of index i are at 2 i + 1 and 2 i + 2.

#include "server/scheduling/fair_queue.h"

#include <algorithm>

namespace qgemm {

void DeadlineHeap::Push(WaitingRequest* waiting) {
  if (waiting->request->deadline == absl::InfiniteFuture()) return;
  heap_.push_back(waiting);
  SiftUp(waiting, static_cast<int64_t>(heap_.size()) - 1);
}

void DeadlineHeap::Remove(WaitingRequest* waiting) {
  const int64_t index = std::exchange(waiting->heap_index, -1);
  if (index < 0) return;
  WaitingRequest* const last = heap_.back();
  heap_.pop_back();
  if (last == waiting) return;
  SiftDown(last, index);
  SiftUp(last, last->heap_index);
}

void DeadlineHeap::Put(WaitingRequest* waiting, int64_t index) {
  heap_[index] = waiting;
  waiting->heap_index = index;
}

void DeadlineHeap::SiftUp(WaitingRequest* waiting, int64_t index) {
  while (index > 0 &&
         waiting->request->deadline < DeadlineAt((index - 1) / 2)) {
    Put(heap_[(index - 1) / 2], index);
    index = (index - 1) / 2;
  }
  Put(waiting, index);
}

void DeadlineHeap::SiftDown(WaitingRequest* waiting, int64_t index) {
  const auto size = static_cast<int64_t>(heap_.size());
  while (2 * index + 1 < size) {
    int64_t child = 2 * index + 1;
    if (child + 1 < size && DeadlineAt(child + 1) < DeadlineAt(child)) ++child;
    if (waiting->request->deadline <= DeadlineAt(child)) break;
    Put(heap_[child], index);
    index = child;
  }
  Put(waiting, index);
}

Priority FairQueue::highest_priority() const {
  int priority = kPriorities - 1;
  while (priority > 0 && rings_[priority].empty()) --priority;
  return static_cast<Priority>(priority);
}

void FairQueue::Push(WaitingRequest* waiting) {
  waiting->queue = this;
  waiting->client_queue = ClientQueueOf(*waiting);
  waiting->client_queue->requests.PushBack(waiting);
  Count(waiting);
}

void FairQueue::PushUnfinished(WaitingRequest* waiting) {
  waiting->queue = this;
  waiting->client_queue = ClientQueueOf(*waiting);
  waiting->client_queue->requests.PushFront(waiting);
  Count(waiting);
}

void FairQueue::Remove(WaitingRequest* waiting) {
  LeaveClientQueue(waiting);
  Uncount(waiting);
}

void FairQueue::Launched(WaitingRequest* waiting) { Uncount(waiting); }

void FairQueue::Restore(WaitingRequest* waiting) {
  ClientQueue* const queue = ClientQueueOf(*waiting);
  waiting->client_queue = queue;
  queue->requests.PushFront(waiting);
  DrrRing& ring = RingOf(queue->priority);
  ring.Remove(queue);
  ring.AddFront(queue);
  queue->has_quantum = true;
  queue->deficit_rows += CostRows(*waiting);
}

ClientQueue* FairQueue::ClientQueueOf(const WaitingRequest& waiting) {
  const Priority priority = waiting.request->priority;
  ClientQueue*& queue = queue_of_client_[{waiting.client, priority}];
  if (queue == nullptr) {
    queue = client_queues_->Take();
    queue->client = waiting.client;
    queue->priority = priority;
    RingOf(priority).Add(queue);
  }
  return queue;
}

void FairQueue::LeaveClientQueue(WaitingRequest* waiting) {
  ClientQueue* const queue = waiting->client_queue;
  waiting->client_queue = nullptr;
  queue->requests.Remove(waiting);
  if (!queue->requests.empty()) return;
  RingOf(queue->priority).Remove(queue);
  queue_of_client_.erase({queue->client, queue->priority});
  client_queues_->Return(queue);
}

void FairQueue::Count(WaitingRequest* waiting) {
  ++requests_;
  layer_.has_waiting = true;
  rows_ += waiting->rows_left();
  by_age_.PushBack(waiting);
  deadlines_.Push(waiting);
}

void FairQueue::Uncount(WaitingRequest* waiting) {
  --requests_;
  layer_.has_waiting = requests_ > 0;
  rows_ -= waiting->rows_left();
  by_age_.Remove(waiting);
  deadlines_.Remove(waiting);
}

void FairQueue::TakeBatch(const BatchBounds& bounds, const BatchHead& head,
                          std::vector<WaitingRequest*>* batch,
                          std::vector<WaitingRequest*>* cancelled) {
  BatchFill fill = {bounds, batch, cancelled};
  TakeHead(head, &fill);
  const auto cost_rows = [this](const WaitingRequest& waiting) {
    return CostRows(waiting);
  };
  for (int priority = kPriorities - 1; priority >= 0; --priority) {
    while (WaitingRequest* const next = rings_[priority].Head(cost_rows)) {
      if (!Take(next, &fill)) return;
    }
  }
}

void FairQueue::TakeHead(const BatchHead& head, BatchFill* fill) {
  const bool began_aged = std::exchange(began_aged_, false);
  if (head.urgent && deadlines_.first() != nullptr) {
    WaitingRequest* const urgent = deadlines_.first();
    ClientQueue* const queue = urgent->client_queue;
    WaitingRequest* next = nullptr;
    do {
      next = queue->requests.front();
    } while (Take(next, fill) && next != urgent);
    return;
  }
  ClientQueue* const oldest = by_age_.front()->client_queue;
  if (began_aged || oldest->priority == highest_priority()) return;
  if (by_age_.front()->waiting_since() > head.aged_before) return;
  began_aged_ = true;
  Take(oldest->requests.front(), fill);
}

bool FairQueue::Take(WaitingRequest* waiting, BatchFill* fill) {
  if (waiting->request->is_cancelled()) {
    Remove(waiting);
    fill->cancelled->push_back(waiting);
    return true;
  }
  const int64_t rows = waiting->rows_left();
  const bool first = fill->batch->empty();
  if (!first && (fill->left.max_requests == 0 || rows > fill->left.max_rows)) {
    return false;
  }
  fill->left.max_rows -= std::min(rows, fill->left.max_rows);
  --fill->left.max_requests;
  waiting->client_queue->deficit_rows -= CostRows(*waiting);
  LeaveClientQueue(waiting);
  fill->batch->push_back(waiting);
  return true;
}

}  // namespace qgemm
