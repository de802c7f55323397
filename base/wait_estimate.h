// SPDX-License-Identifier: Apache-2.0
//
// The time for which a thread may sleep while work runs whose like has run
// before, so that it need look for its end only for the rest. Pure.

#ifndef QGEMM_BASE_WAIT_ESTIMATE_H_
#define QGEMM_BASE_WAIT_ESTIMATE_H_

#include <algorithm>

#include "absl/time/time.h"

namespace qgemm {

// A wait for one piece of work. Times from its start on.
struct ObservedWait {
  absl::Duration slept_until;  // wanted; zero without sleep
  absl::Duration awake;        // when the thread ran again; zero without sleep
  absl::Duration ended;        // when it saw the end
  // The end had come before it was awake, nobody knows when.
  bool ended_asleep = false;
};

// Sleeps until a margin before the shortest time of late: work that waited for
// other work took longer, and tells nothing. The margin shrinks until some
// sleeps, of ten or more, last longer than what they wait for.
class WaitEstimate {
 public:
  // Zero where sleep is not worth its while.
  absl::Duration sleep_until() const {
    const absl::Duration until = length_ - margin_;
    return until < kLeastSleep ? absl::ZeroDuration() : until;
  }

  void Observe(const ObservedWait& wait) {
    if (wait.ended_asleep) {
      margin_ += std::max({kBackOff, margin_ / 4, wait.awake - length_});
      margin_ = std::min(margin_, 2 * length_);
      return;
    }
    margin_ -= kApproach;
    if (length_ == absl::ZeroDuration()) {
      length_ = wait.ended;
    } else if (wait.ended < length_) {
      margin_ -= length_ - wait.ended;  // what it slept until was right
      length_ = wait.ended;
    } else {
      length_ +=
          std::min(wait.ended - length_, length_ / kSlowness) / kSlowness;
    }
    margin_ = std::max(margin_, absl::ZeroDuration());
  }

 private:
  static constexpr absl::Duration kLeastSleep = absl::Microseconds(25);
  static constexpr int kSlowness = 16;
  // After a thread awoke very late it does not sleep some hundreds of times.
  static constexpr absl::Duration kBackOff = absl::Microseconds(3);
  static constexpr absl::Duration kApproach = absl::Nanoseconds(200);

  absl::Duration length_;
  absl::Duration margin_ = absl::Microseconds(15);
};

}  // namespace qgemm

#endif  // QGEMM_BASE_WAIT_ESTIMATE_H_
