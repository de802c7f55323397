// SPDX-License-Identifier: Apache-2.0
//
// SystemClock reads the clock that absl::Now reads.

#include "base/clock.h"

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

TEST(SystemClockTest, ReadsTheWallClock) {
  const SystemClock system_clock;
  const Clock& clock = system_clock;
  const absl::Time before = absl::Now();
  const absl::Time reading = clock.Now();
  const absl::Time after = absl::Now();
  if (after < before) GTEST_SKIP() << "the wall clock was set back";
  EXPECT_LE(before, reading);
  EXPECT_LE(reading, after);
}

}  // namespace
}  // namespace qgemm
