// SPDX-License-Identifier: Apache-2.0
//
// Processes that hang end with the code that the guard was given.

#include "server/health/exit_guard.h"

#include <unistd.h>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

[[noreturn]] void Hang() {
  while (true) pause();
}

class ExitGuardDeathTest : public testing::Test {
 protected:
  ExitGuardDeathTest() {
    // The guard has a thread.
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
  }
};

TEST_F(ExitGuardDeathTest, EndsAProcessThatHangs) {
  EXPECT_EXIT(
      {
        ExitGuard guard;
        guard.ExitAfter(absl::Milliseconds(1), 7);
        Hang();
      },
      testing::ExitedWithCode(7), "the drain hangs");
}

TEST_F(ExitGuardDeathTest, TheLastOfSeveralTimesCounts) {
  EXPECT_EXIT(
      {
        ExitGuard guard;
        guard.ExitAfter(absl::Hours(1), 7);
        guard.ExitAfter(absl::ZeroDuration(), 8);
        Hang();
      },
      testing::ExitedWithCode(8), "the drain hangs");
}

TEST_F(ExitGuardDeathTest, LeavesAProcessAloneThatEndsInTime) {
  EXPECT_EXIT(
      {
        ExitGuard guard;
        guard.ExitAfter(absl::Hours(1), 7);
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace qgemm
