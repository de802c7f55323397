// SPDX-License-Identifier: Apache-2.0
//
// The time for which a thread may sleep while a batch runs whose like has run
// before, so that it need look for the batch's end only for the rest. Pure.

#ifndef QGEMM_KERNELS_CUDA_PLAN_WAIT_ESTIMATE_H_
#define QGEMM_KERNELS_CUDA_PLAN_WAIT_ESTIMATE_H_

#include <algorithm>

#include "absl/time/time.h"

namespace qgemm::cuda {

// A wait for one batch. Times from the batch's start on.
struct ObservedWait {
  absl::Duration slept_until;  // wanted; zero without sleep
  absl::Duration awake;        // when the thread ran again; zero without sleep
  absl::Duration ended;        // when it saw the end
  // The end had come before it was awake, nobody knows when.
  bool ended_asleep = false;
};

// Follows the shortest times of late: a batch that waited for others took
// longer, and tells nothing.
class WaitEstimate {
 public:
  // Zero where sleep is not worth its while.
  absl::Duration sleep_until() const {
    const absl::Duration until = length_ - 2 * lateness_ - kLook;
    return until < kLeastSleep ? absl::ZeroDuration() : until;
  }

  void Observe(const ObservedWait& wait) {
    if (wait.awake > absl::ZeroDuration()) {
      const absl::Duration late = wait.awake - wait.slept_until;
      lateness_ = std::max(late, lateness_ - (lateness_ - late) / kSlowness);
    } else {
      lateness_ -= lateness_ / kForgetting;
    }
    if (wait.ended_asleep) {
      length_ -= length_ / kSlowness;
    } else if (length_ == absl::ZeroDuration() || wait.ended < length_) {
      length_ = wait.ended;
    } else {
      length_ +=
          std::min(wait.ended - length_, length_ / kSlowness) / kSlowness;
    }
  }

 private:
  // The last look begins so long before the end: with 6 us a lone client waited
  // some 5 us longer than without sleep, with 15 us no longer, and 25 us cost a
  // sixth more of the processor (bench/NOTES.md).
  static constexpr absl::Duration kLook = absl::Microseconds(15);
  static constexpr absl::Duration kLeastSleep = absl::Microseconds(20);
  static constexpr int kSlowness = 16;
  // Waits without sleep, after a late one, until it is tried again: more than a
  // hundred to one are then not late.
  static constexpr int kForgetting = 256;

  absl::Duration length_;
  absl::Duration lateness_ = absl::Microseconds(4);  // of awaking
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_WAIT_ESTIMATE_H_
