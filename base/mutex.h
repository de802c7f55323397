// SPDX-License-Identifier: Apache-2.0
//
// Mutex, MutexLock and CondVar over the standard ones, with Clang's
// thread-safety attributes. ThreadSanitizer sees through these; it does not
// see through the distribution's uninstrumented absl::Mutex. A lock must be
// held for microseconds only: a thread that finds it taken spins for some
// before it sleeps, since sleeping and waking takes longer.

#ifndef QGEMM_BASE_MUTEX_H_
#define QGEMM_BASE_MUTEX_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/tsan.h"

namespace qgemm {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    // 63 pauses in all: 1 to 3 us.
    for (int pauses = 1; pauses <= 32; pauses *= 2) {
      if (mutex_.try_lock()) return;
      for (int i = 0; i < pauses; ++i) Pause();
    }
    mutex_.lock();
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class CondVar;

  // Yields the core to its other hardware thread.
  static void Pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }

  std::mutex mutex_;
};

// Holds a mutex for a scope.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    mutex_->Lock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }

 private:
  Mutex* const mutex_;
};

// A wait must be a loop over the awaited condition.
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void Wait(Mutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }

  // Returns false if the timeout passed without a wake-up.
  bool WaitFor(Mutex* mutex, absl::Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    // The clock's nanoseconds would overflow under longer timeouts.
    const absl::Duration bounded =
        std::clamp(timeout, absl::ZeroDuration(), absl::Hours(24 * 365 * 100));
    const std::cv_status status = condition_.wait_until(
        lock, WaitClock::now() + absl::ToChronoMicroseconds(bounded));
    lock.release();
    return status == std::cv_status::no_timeout;
  }

  void Signal() { condition_.notify_one(); }
  void SignalAll() { condition_.notify_all(); }

 private:
#ifdef QGEMM_TSAN
  // ThreadSanitizer of GCC 12 does not know pthread_cond_clockwait, which a
  // wait on the steady clock calls.
  using WaitClock = std::chrono::system_clock;
#else
  using WaitClock = std::chrono::steady_clock;
#endif

  std::condition_variable condition_;
};

}  // namespace qgemm

#endif  // QGEMM_BASE_MUTEX_H_
