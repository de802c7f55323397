// SPDX-License-Identifier: Apache-2.0
//
// The time as a dependency, so that tests move it by hand.

#ifndef QGEMM_BASE_CLOCK_H_
#define QGEMM_BASE_CLOCK_H_

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace qgemm {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

// The wall time at the process's first reading, and steady time since then. A
// step of the wall clock neither expires nor prolongs what waits. All objects
// tell one time.
class SystemClock final : public Clock {
 public:
  absl::Time Now() const override;
};

// Time that only moves forward; its epoch means nothing.
class SteadyClock final : public Clock {
 public:
  absl::Time Now() const override {
    return absl::UnixEpoch() +
           absl::FromChrono(
               std::chrono::steady_clock::now().time_since_epoch());
  }
};

}  // namespace qgemm

#endif  // QGEMM_BASE_CLOCK_H_
