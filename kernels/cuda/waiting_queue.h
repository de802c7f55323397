// SPDX-License-Identifier: Apache-2.0
//
// Values that wait for a thread, first in first out.

#ifndef QGEMM_KERNELS_CUDA_WAITING_QUEUE_H_
#define QGEMM_KERNELS_CUDA_WAITING_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace qgemm::cuda {

// Thread-safe; one thread pops. Pushing allocates only when the queue is
// longer than it ever was.
template <typename Value>
class WaitingQueue {
 public:
  void Push(Value value) {
    {
      MutexLock lock(&mutex_);
      if (count_ == ring_.size()) Grow();
      ring_[(first_ + count_) % ring_.size()] = std::move(value);
      ++count_;
    }
    not_empty_.Signal();
  }

  // The next value, waiting for one; nothing once the queue is closed and
  // empty.
  std::optional<Value> Pop() {
    MutexLock lock(&mutex_);
    while (count_ == 0) {
      if (closed_) return std::nullopt;
      not_empty_.Wait(&mutex_);
    }
    return Take();
  }

  // The next value, or nothing if there is none at present.
  std::optional<Value> TryPop() {
    MutexLock lock(&mutex_);
    if (count_ == 0) return std::nullopt;
    return Take();
  }

  // After that Pop waits for nothing.
  void Close() {
    {
      MutexLock lock(&mutex_);
      closed_ = true;
    }
    not_empty_.SignalAll();
  }

 private:
  Value Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Value value = std::move(ring_[first_]);
    first_ = (first_ + 1) % ring_.size();
    --count_;
    return value;
  }

  void Grow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<Value> larger(std::max<size_t>(16, 2 * ring_.size()));
    for (size_t i = 0; i < count_; ++i) {
      larger[i] = std::move(ring_[(first_ + i) % ring_.size()]);
    }
    ring_ = std::move(larger);
    first_ = 0;
  }

  Mutex mutex_;
  CondVar not_empty_;
  // A ring: `count_` values from `first_` on.
  std::vector<Value> ring_ ABSL_GUARDED_BY(mutex_);
  size_t first_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_WAITING_QUEUE_H_
