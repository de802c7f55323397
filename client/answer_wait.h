// SPDX-License-Identifier: Apache-2.0
//
// Waits for answers of a lane that sleep until shortly before the answer is
// expected: who is asleep when it comes must be woken, which takes the server
// microseconds and the sleeper ten or more.

#ifndef QGEMM_CLIENT_ANSWER_WAIT_H_
#define QGEMM_CLIENT_ANSWER_WAIT_H_

#include <sys/prctl.h>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/wait_estimate.h"

namespace qgemm {

// Time that the answers of one target take of late, from the publishing of a
// request to its end. Thread-safe.
class AnswerEstimate {
 public:
  // As WaitEstimate has it.
  absl::Duration sleep_until() const {
    MutexLock lock(&mutex_);
    return estimate_.sleep_until();
  }
  void Observe(const ObservedWait& wait) {
    MutexLock lock(&mutex_);
    estimate_.Observe(wait);
  }

 private:
  mutable Mutex mutex_;
  WaitEstimate estimate_ ABSL_GUARDED_BY(mutex_);
};

// While it lives, sleeps of its thread end on time instead of up to 50 us late.
class PunctualSleeps {
 public:
  PunctualSleeps() : slack_(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)) {
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  }
  PunctualSleeps(const PunctualSleeps&) = delete;
  PunctualSleeps& operator=(const PunctualSleeps&) = delete;
  // Zero would set the default.
  ~PunctualSleeps() {
    if (slack_ > 0) prctl(PR_SET_TIMERSLACK, slack_, 0, 0, 0);
  }

 private:
  const int slack_;  // in ns; -1 if it is not known
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_ANSWER_WAIT_H_
