// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/fair_queue.h"

#include <algorithm>

namespace qgemm {

Priority FairQueue::highest_priority() const {
  int priority = kPriorities - 1;
  while (priority > 0 && rings_[priority].empty()) --priority;
  return static_cast<Priority>(priority);
}

void FairQueue::Push(WaitingRequest* waiting) {
  waiting->queue = this;
  waiting->lane = LaneOf(*waiting);
  waiting->lane->requests.PushBack(waiting);
  Count(waiting);
}

void FairQueue::PushUnfinished(WaitingRequest* waiting) {
  waiting->queue = this;
  waiting->lane = LaneOf(*waiting);
  waiting->lane->requests.PushFront(waiting);
  Count(waiting);
}

void FairQueue::Remove(WaitingRequest* waiting) {
  LeaveLane(waiting);
  Uncount(waiting);
}

void FairQueue::Launched(WaitingRequest* waiting) { Uncount(waiting); }

void FairQueue::Restore(WaitingRequest* waiting) {
  ClientLane* const lane = LaneOf(*waiting);
  waiting->lane = lane;
  lane->requests.PushFront(waiting);
  LaneRing& ring = RingOf(lane->priority);
  ring.Remove(lane);
  ring.AddFront(lane);
  lane->in_turn = true;
  lane->credit_rows += CostRows(*waiting);
}

ClientLane* FairQueue::LaneOf(const WaitingRequest& waiting) {
  const Priority priority = waiting.request->priority;
  ClientLane*& lane = lane_of_[{waiting.client, priority}];
  if (lane == nullptr) {
    lane = lanes_->Take();
    lane->client = waiting.client;
    lane->priority = priority;
    RingOf(priority).Add(lane);
  }
  return lane;
}

void FairQueue::LeaveLane(WaitingRequest* waiting) {
  ClientLane* const lane = waiting->lane;
  waiting->lane = nullptr;
  lane->requests.Remove(waiting);
  if (!lane->requests.empty()) return;
  RingOf(lane->priority).Remove(lane);
  lane_of_.erase({lane->client, lane->priority});
  lanes_->Return(lane);
}

void FairQueue::Count(WaitingRequest* waiting) {
  ++requests_;
  place_.has_waiting = true;
  rows_ += waiting->request->rows_left();
  by_age_.PushBack(waiting);
  deadlines_.Push(waiting);
}

void FairQueue::Uncount(WaitingRequest* waiting) {
  --requests_;
  place_.has_waiting = requests_ > 0;
  rows_ -= waiting->request->rows_left();
  by_age_.Remove(waiting);
  deadlines_.Remove(waiting);
}

void FairQueue::TakeBatch(const BatchBounds& bounds, const FirstTurn& first,
                          std::vector<WaitingRequest*>* batch,
                          std::vector<WaitingRequest*>* cancelled) {
  BatchFill fill = {bounds, batch, cancelled};
  TakeFirstTurn(first, &fill);
  const auto cost = [this](const WaitingRequest& waiting) {
    return CostRows(waiting);
  };
  for (int priority = kPriorities - 1; priority >= 0; --priority) {
    while (WaitingRequest* const next = rings_[priority].Offer(cost)) {
      if (!Take(next, &fill)) return;
    }
  }
}

void FairQueue::TakeFirstTurn(const FirstTurn& first, BatchFill* fill) {
  const bool began_aged = std::exchange(began_aged_, false);
  if (first.urgent && deadlines_.first() != nullptr) {
    WaitingRequest* const urgent = deadlines_.first();
    ClientLane* const lane = urgent->lane;
    WaitingRequest* next = nullptr;
    do {
      next = lane->requests.front();
    } while (Take(next, fill) && next != urgent);
    return;
  }
  ClientLane* const oldest = by_age_.front()->lane;
  if (began_aged || oldest->priority == highest_priority()) return;
  if (by_age_.front()->request->waiting_since() > first.aged_before) return;
  began_aged_ = true;
  Take(oldest->requests.front(), fill);
}

bool FairQueue::Take(WaitingRequest* waiting, BatchFill* fill) {
  if (waiting->request->is_cancelled()) {
    Remove(waiting);
    fill->cancelled->push_back(waiting);
    return true;
  }
  const int64_t rows = waiting->request->rows_left();
  const bool first = fill->batch->empty();
  if (!first && (fill->left.max_requests == 0 || rows > fill->left.max_rows)) {
    return false;
  }
  fill->left.max_rows -= std::min(rows, fill->left.max_rows);
  --fill->left.max_requests;
  waiting->lane->credit_rows -= CostRows(*waiting);
  LeaveLane(waiting);
  fill->batch->push_back(waiting);
  return true;
}

}  // namespace qgemm
