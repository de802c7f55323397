// SPDX-License-Identifier: Apache-2.0
//
// An identity's queue lives while it has requests, and is in the ring while one
// of them is not in a batch.

#include "server/scheduling/fair_queue.h"

#include <algorithm>

#include "server/scheduling/client_table.h"

namespace qgemm {

void FairQueue::Push(WaitingRequest* waiting) {
  IdentityQueue* const queue = QueueOf(*waiting);
  queue->Push(waiting);
  UpdateTurns(queue);
  Count(*waiting);
}

void FairQueue::PushUnfinished(WaitingRequest* waiting) {
  IdentityQueue* const queue = QueueOf(*waiting);
  queue->PushUnfinished(waiting);
  UpdateTurns(queue);
  Count(*waiting);
}

void FairQueue::Remove(WaitingRequest* waiting) {
  waiting->queue->Remove(waiting);
  UpdateTurns(waiting->queue);
  Uncount(*waiting);
}

void FairQueue::Release(IdentityQueue* emptied) {
  queues_.erase(emptied->identity());
  pools_->identity_queues.Return(emptied);
}

void FairQueue::Launched(WaitingRequest* waiting) {
  waiting->queue->Launched(waiting);
  Uncount(*waiting);
}

void FairQueue::Restore(WaitingRequest* waiting) {
  IdentityQueue* const queue = waiting->queue;
  queue->Restore(waiting);
  UpdateTurns(queue);
  ring_.Remove(queue);
  ring_.AddFront(queue);
  queue->has_quantum = true;
  queue->deficit_rows += queue->CostRows(*waiting);
}

IdentityQueue* FairQueue::QueueOf(const WaitingRequest& waiting) {
  IdentityState* const identity = waiting.client->identity;
  IdentityQueue*& queue = queues_[identity];
  if (queue == nullptr) {
    queue = pools_->identity_queues.Take();
    queue->Bind(this, identity, key_.kind, &pools_->client_queues);
  }
  return queue;
}

void FairQueue::Count(const WaitingRequest& waiting) {
  ++requests_;
  layer_.has_waiting = true;
  rows_ += waiting.rows_left();
}

void FairQueue::Uncount(const WaitingRequest& waiting) {
  --requests_;
  layer_.has_waiting = requests_ > 0;
  rows_ -= waiting.rows_left();
}

void FairQueue::UpdateTurns(IdentityQueue* queue) {
  if (queue->has_turns == queue->has_next()) return;
  queue->has_turns = queue->has_next();
  if (queue->has_turns) {
    ring_.Add(queue);
    return;
  }
  ring_.Remove(queue);
  queue->deficit_rows = 0;
  queue->has_quantum = false;
}

void FairQueue::TakeBatch(const BatchBounds& bounds, const BatchStart& start,
                          std::vector<WaitingRequest*>* batch,
                          std::vector<WaitingRequest*>* cancelled) {
  BatchFill fill = {bounds, batch, cancelled};
  if (!TakeStart(start, &fill)) return;
  const auto cost_rows = [](IdentityQueue* queue) {
    return queue->CostRows(*queue->Next());
  };
  while (IdentityQueue* const next = ring_.Head(cost_rows)) {
    if (!Take(next->Next(), &fill)) return;
  }
}

bool FairQueue::TakeStart(const BatchStart& start, BatchFill* fill) {
  start.client_queue->queue->Started(start);
  WaitingRequest* next = nullptr;
  do {
    next = start.client_queue->requests.front();
    if (!Take(next, fill)) return false;
  } while (next != start.last);
  return true;
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
  IdentityQueue* const queue = waiting->queue;
  queue->deficit_rows -= queue->CostRows(*waiting);
  queue->Take(waiting);
  UpdateTurns(queue);
  fill->batch->push_back(waiting);
  return true;
}

}  // namespace qgemm
