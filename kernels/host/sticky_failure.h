// SPDX-License-Identifier: Apache-2.0
//
// The reason why a backend computes no more, once it has one.

#ifndef QGEMM_KERNELS_HOST_STICKY_FAILURE_H_
#define QGEMM_KERNELS_HOST_STICKY_FAILURE_H_

#include <atomic>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/log.h"
#include "base/mutex.h"

namespace qgemm {

// OK until the first Set, which stays. Thread-safe; without a lock while OK.
class StickyFailure {
 public:
  // Logs the reason, if it is the first.
  void Set(std::string reason) {
    {
      MutexLock lock(&mutex_);
      if (has_failed_.load(std::memory_order_relaxed)) return;
      status_ = absl::UnavailableError(reason);
      has_failed_.store(true, std::memory_order_release);
    }
    LOG(ERROR) << reason;
  }

  // OK, or UNAVAILABLE with the reason.
  absl::Status status() const {
    if (!has_failed_.load(std::memory_order_acquire)) return absl::OkStatus();
    MutexLock lock(&mutex_);
    return status_;
  }

 private:
  std::atomic<bool> has_failed_{false};
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_HOST_STICKY_FAILURE_H_
