// SPDX-License-Identifier: Apache-2.0
//
// CHECK: passes in silence, or ends the process and says what failed.

#include "base/check.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

TEST(CheckTest, PassingComparisonsEvaluateOperandsOnce) {
  int evaluations = 0;
  CHECK_EQ(++evaluations, 1) << "a message that is never built";
  EXPECT_EQ(evaluations, 1);
}

TEST(CheckTest, PassingChecksDoNotBuildTheirMessage) {
  int built = 0;
  CHECK(true) << ++built;
  EXPECT_EQ(built, 0);
}

TEST(CheckTest, EveryComparisonAcceptsItsTrueCases) {
  CHECK_EQ(2, 2);
  CHECK_NE(1, 2);
  CHECK_LE(2, 2);
  CHECK_LT(1, 2);
  CHECK_GE(2, 2);
  CHECK_GT(2, 1);
  CHECK_OK(absl::OkStatus());
}

TEST(CheckTest, BindsAsOneStatementInsideIfElse) {
  bool reached_else = false;
  if (reached_else)
    CHECK(false);
  else
    reached_else = true;
  EXPECT_TRUE(reached_else);
}

TEST(CheckDeathTest, FailureNamesConditionAndMessage) {
  const bool ready = false;
  EXPECT_DEATH(CHECK(ready) << "pump " << 7, "CHECK failed: ready pump 7");
}

TEST(CheckDeathTest, FailedComparisonShowsBothValues) {
  const int rows = 3;
  EXPECT_DEATH(CHECK_EQ(rows, 4) << "in a panel", "3 vs 4.*in a panel");
  EXPECT_DEATH(CHECK_NE(rows, 3), "3 vs 3");
  EXPECT_DEATH(CHECK_LE(rows, 2), "3 vs 2");
  EXPECT_DEATH(CHECK_LT(rows, 3), "3 vs 3");
  EXPECT_DEATH(CHECK_GE(rows, 4), "3 vs 4");
  EXPECT_DEATH(CHECK_GT(rows, 3), "3 vs 3");
}

TEST(CheckDeathTest, FailedStatusIsPrinted) {
  EXPECT_DEATH(CHECK_OK(absl::NotFoundError("no such layer")),
               "NOT_FOUND: no such layer");
}

}  // namespace
}  // namespace qgemm
