// SPDX-License-Identifier: Apache-2.0
//
// Count of live objects, for an owner that waits until all are gone.

#ifndef QGEMM_BASE_LIVE_COUNT_H_
#define QGEMM_BASE_LIVE_COUNT_H_

#include <atomic>
#include <cstdint>

#include "base/mutex.h"

namespace qgemm {

// Thread-safe, without a lock while more than one is alive.
class LiveCount {
 public:
  void Add() { count_.fetch_add(1, std::memory_order_relaxed); }
  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }

  // Ends with its last look at the count: the owner that waited for the last
  // Remove may then destroy it.
  void Remove() {
    int64_t count = count_.load(std::memory_order_relaxed);
    while (count > 1) {
      if (count_.compare_exchange_weak(count, count - 1,
                                       std::memory_order_release,
                                       std::memory_order_relaxed)) {
        return;
      }
    }
    // Zero is reached under the lock alone, so that the owner, which waits for
    // it, cannot go on before this has left.
    MutexLock lock(&mutex_);
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) none_.SignalAll();
  }

  // Sees all that was done before each Remove.
  void WaitUntilNone() {
    MutexLock lock(&mutex_);
    while (count_.load(std::memory_order_acquire) != 0) none_.Wait(&mutex_);
  }

 private:
  std::atomic<int64_t> count_{0};
  Mutex mutex_;
  CondVar none_;
};

}  // namespace qgemm

#endif  // QGEMM_BASE_LIVE_COUNT_H_
