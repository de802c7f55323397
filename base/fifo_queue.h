// SPDX-License-Identifier: Apache-2.0
//
// Values that wait for a thread, first in first out.

#ifndef QGEMM_BASE_FIFO_QUEUE_H_
#define QGEMM_BASE_FIFO_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace qgemm {

// Any number of threads push and pop. Pushing allocates only when the queue is
// longer than ever before. T is default-constructible and movable; moving from
// a value must leave it without resources, since it stays in the ring.
// Thread-safe.
template <typename T>
class FifoQueue {
 public:
  FifoQueue() = default;
  FifoQueue(const FifoQueue&) = delete;
  FifoQueue& operator=(const FifoQueue&) = delete;

  // Also after Close: values that come late still get popped.
  void Push(T value) {
    {
      MutexLock lock(&mutex_);
      if (count_ == ring_.size()) Grow();
      ring_[(first_ + count_) % ring_.size()] = std::move(value);
      ++count_;
    }
    not_empty_.Signal();
  }

  // Waits for a value. Returns nullopt once the queue is closed and empty.
  std::optional<T> Pop() {
    MutexLock lock(&mutex_);
    while (count_ == 0) {
      if (closed_) return std::nullopt;
      not_empty_.Wait(&mutex_);
    }
    return Take();
  }

  // Returns nullopt if the queue is empty at present.
  std::optional<T> TryPop() {
    MutexLock lock(&mutex_);
    if (count_ == 0) return std::nullopt;
    return Take();
  }

  // Pop waits no longer from here on.
  void Close() {
    {
      MutexLock lock(&mutex_);
      closed_ = true;
    }
    not_empty_.SignalAll();
  }

  int64_t size() const {
    MutexLock lock(&mutex_);
    return static_cast<int64_t>(count_);
  }

 private:
  T Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    T value = std::move(ring_[first_]);
    first_ = (first_ + 1) % ring_.size();
    --count_;
    return value;
  }

  void Grow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<T> larger(std::max<size_t>(16, 2 * ring_.size()));
    for (size_t i = 0; i < count_; ++i) {
      larger[i] = std::move(ring_[(first_ + i) % ring_.size()]);
    }
    ring_ = std::move(larger);
    first_ = 0;
  }

  mutable Mutex mutex_;
  CondVar not_empty_;
  // A ring: `count_` values from `first_` on.
  std::vector<T> ring_ ABSL_GUARDED_BY(mutex_);
  size_t first_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace qgemm

#endif  // QGEMM_BASE_FIFO_QUEUE_H_
