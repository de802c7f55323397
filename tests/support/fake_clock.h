// SPDX-License-Identifier: Apache-2.0
//
// A clock that stands still until a test moves it.

#ifndef QGEMM_TESTS_SUPPORT_FAKE_CLOCK_H_
#define QGEMM_TESTS_SUPPORT_FAKE_CLOCK_H_

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace qgemm {

// Thread-safe.
class FakeClock final : public Clock {
 public:
  FakeClock() : FakeClock(absl::FromUnixSeconds(1'700'000'000)) {}
  explicit FakeClock(absl::Time now) : now_(now) {}

  absl::Time Now() const override {
    MutexLock lock(&mutex_);
    return now_;
  }
  void Advance(absl::Duration duration) {
    MutexLock lock(&mutex_);
    now_ += duration;
  }
  void Set(absl::Time now) {
    MutexLock lock(&mutex_);
    now_ = now;
  }

 private:
  mutable Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_SUPPORT_FAKE_CLOCK_H_
