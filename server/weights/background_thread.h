// SPDX-License-Identifier: Apache-2.0
//
// A thread for work on the disk that has time, and ends when it is told to.

#ifndef QGEMM_SERVER_WEIGHTS_BACKGROUND_THREAD_H_
#define QGEMM_SERVER_WEIGHTS_BACKGROUND_THREAD_H_

#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace qgemm {

// Start and Stop are one thread's.
class BackgroundThread {
 public:
  BackgroundThread() = default;
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;
  ~BackgroundThread() { Stop(); }

  // Runs the function, which returns soon after Wait has returned false. Once.
  void Start(absl::AnyInvocable<void()> run) {
    thread_ = std::thread(std::move(run));
  }

  // Returns when the function has. May be repeated.
  void Stop() {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
    }
    stopped_.SignalAll();
    if (thread_.joinable()) thread_.join();
  }

  // Called by the function. Waits; false once stopped.
  bool Wait(absl::Duration duration) {
    const absl::Time end = absl::Now() + duration;
    MutexLock lock(&mutex_);
    while (!stopping_) {
      const absl::Duration left = end - absl::Now();
      if (left <= absl::ZeroDuration()) return true;
      stopped_.WaitFor(&mutex_, left);
    }
    return false;
  }

 private:
  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_BACKGROUND_THREAD_H_
