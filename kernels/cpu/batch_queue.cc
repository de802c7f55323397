// SPDX-License-Identifier: Apache-2.0
//
// A ring that doubles when it is full.

#include "kernels/cpu/batch_queue.h"

#include <algorithm>

namespace qgemm {

void BatchQueue::Push(QueuedBatch batch) {
  {
    MutexLock lock(&mutex_);
    if (count_ == ring_.size()) Grow();
    ring_[(first_ + count_) % ring_.size()] = std::move(batch);
    ++count_;
  }
  not_empty_.Signal();
}

std::optional<QueuedBatch> BatchQueue::Pop() {
  MutexLock lock(&mutex_);
  while (count_ == 0) {
    if (closed_) return std::nullopt;
    not_empty_.Wait(&mutex_);
  }
  QueuedBatch batch = std::move(ring_[first_]);
  first_ = (first_ + 1) % ring_.size();
  --count_;
  return batch;
}

void BatchQueue::Close() {
  {
    MutexLock lock(&mutex_);
    closed_ = true;
  }
  not_empty_.SignalAll();
}

void BatchQueue::Grow() {
  std::vector<QueuedBatch> larger(std::max<size_t>(16, 2 * ring_.size()));
  for (size_t i = 0; i < count_; ++i) {
    larger[i] = std::move(ring_[(first_ + i) % ring_.size()]);
  }
  ring_ = std::move(larger);
  first_ = 0;
}

}  // namespace qgemm
