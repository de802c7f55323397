// SPDX-License-Identifier: Apache-2.0
//
// The wall clock is stepped by a clock_gettime of the test's own, which the
// libraries find before the C library's.

#include "base/clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace {

std::atomic<int64_t> wall_step_seconds{0};

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && clock == CLOCK_REALTIME) {
    time->tv_sec += wall_step_seconds;
  }
  return result;
}

namespace qgemm {
namespace {

class SystemClockTest : public testing::Test {
 protected:
  ~SystemClockTest() override { wall_step_seconds = 0; }

  // Steps the wall clock by some hours; false if absl::Now does not see it.
  static bool StepWallClock(int64_t hours) {
    const absl::Time before = absl::Now();
    wall_step_seconds = hours * 3600;
    return absl::AbsDuration(absl::Now() - before) > absl::Minutes(30);
  }
};

TEST_F(SystemClockTest, BeginsAtTheWallTime) {
  EXPECT_LT(absl::AbsDuration(SystemClock().Now() - absl::Now()),
            absl::Minutes(30));
}

TEST_F(SystemClockTest, NeverGoesBack) {
  const SystemClock system_clock;
  const Clock& clock = system_clock;
  absl::Time last = clock.Now();
  for (int i = 0; i < 1000; ++i) {
    const absl::Time now = SystemClock().Now();
    ASSERT_LE(last, now);
    last = now;
  }
}

TEST_F(SystemClockTest, DoesNotFollowAStepOfTheWallClock) {
  for (const int64_t hours : {2, -2}) {
    const absl::Time before = SystemClock().Now();
    if (!StepWallClock(hours)) GTEST_SKIP() << "the clock cannot be stepped";
    EXPECT_LT(absl::AbsDuration(SystemClock().Now() - before),
              absl::Minutes(30));
    wall_step_seconds = 0;
  }
}

}  // namespace
}  // namespace qgemm
