// SPDX-License-Identifier: Apache-2.0

#include "server/weights/room_queue.h"

#include <algorithm>

namespace qgemm {

RoomQueue::Place::Place(RoomQueue* queue)
    : queue_(queue), number_(queue->Enter()) {}

RoomQueue::Place::~Place() { queue_->Leave(number_); }

bool RoomQueue::Place::HasTurn(absl::Time now) {
  MutexLock lock(&queue_->mutex_);
  for (auto& [number, turn] : queue_->waiting_) {
    if (number == number_) {
      turn = std::min(turn, now);
      return true;
    }
    if (turn == absl::InfiniteFuture() || now - turn < kTurnPatience) break;
  }
  return false;
}

void RoomQueue::Ring() {
  MutexLock lock(&mutex_);
  ++rings_;
  rung_.SignalAll();
}

uint64_t RoomQueue::rings() const {
  MutexLock lock(&mutex_);
  return rings_;
}

void RoomQueue::AwaitRing(uint64_t seen, absl::Duration at_most) {
  MutexLock lock(&mutex_);
  if (at_most == absl::InfiniteDuration()) {
    while (rings_ == seen) rung_.Wait(&mutex_);
    return;
  }
  while (rings_ == seen && rung_.WaitFor(&mutex_, at_most)) {
  }
}

bool RoomQueue::is_empty() const {
  MutexLock lock(&mutex_);
  return waiting_.empty();
}

uint64_t RoomQueue::Enter() {
  MutexLock lock(&mutex_);
  waiting_.emplace(next_number_, absl::InfiniteFuture());
  return next_number_++;
}

void RoomQueue::Leave(uint64_t number) {
  {
    MutexLock lock(&mutex_);
    waiting_.erase(number);
  }
  Ring();
}

}  // namespace qgemm
