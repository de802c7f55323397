// SPDX-License-Identifier: Apache-2.0
//
// Rates of one name and of all, and the count of what they refuse.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log_line.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

constexpr LogLimits kLimits = {/*name=*/{2, 5}, /*total=*/{3, 12},
                               /*max_names=*/4};

class LogLimiterTest : public ::testing::Test {
 protected:
  // The number of `lines` lines that are admitted now.
  int Admitted(const std::string& name, int lines) {
    int admitted = 0;
    for (int i = 0; i < lines; ++i) {
      admitted += limiter_.Admit(name, now_).admitted ? 1 : 0;
    }
    return admitted;
  }

  LogLimiter limiter_{kLimits};
  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
};

TEST_F(LogLimiterTest, AdmitsABurstAndThenTheRate) {
  EXPECT_EQ(Admitted("a", 100), 5);
  now_ += absl::Seconds(1);
  EXPECT_EQ(Admitted("a", 100), 2);
  now_ += absl::Seconds(2);
  EXPECT_EQ(Admitted("a", 100), 4);
}

TEST_F(LogLimiterTest, QuietRefillsTheBurstAndNoMore) {
  EXPECT_EQ(Admitted("a", 100), 5);
  now_ += absl::Hours(1);
  EXPECT_EQ(Admitted("a", 100), 5);
}

TEST_F(LogLimiterTest, NamesHaveBudgetsOfTheirOwn) {
  EXPECT_EQ(Admitted("a", 100), 5);
  EXPECT_EQ(Admitted("b", 100), 5);
}

TEST_F(LogLimiterTest, TheNextLineTellsHowManyWereSuppressed) {
  EXPECT_EQ(Admitted("a", 100), 5);
  now_ += absl::Seconds(1);
  EXPECT_EQ(limiter_.Admit("a", now_).suppressed, 95);
  EXPECT_EQ(limiter_.Admit("a", now_).suppressed, 0);
}

TEST_F(LogLimiterTest, AllTogetherHaveALimit) {
  EXPECT_EQ(Admitted("a", 100) + Admitted("b", 100) + Admitted("c", 100), 12);
  now_ += absl::Seconds(1);
  EXPECT_EQ(Admitted("a", 2) + Admitted("b", 2) + Admitted("c", 2), 4);
}

// A flood of two names does not hide a third's rare line.
TEST_F(LogLimiterTest, TheTotalNeverRefusesANamesFirstLineOfASecond) {
  Admitted("a", 100);
  Admitted("b", 100);
  Admitted("c", 100);
  EXPECT_EQ(Admitted("rare", 100), 1);
  now_ += absl::Milliseconds(999);
  Admitted("a", 100);
  Admitted("b", 100);
  EXPECT_EQ(Admitted("rare", 1), 0);
  now_ += absl::Milliseconds(1);
  EXPECT_EQ(Admitted("rare", 1), 1);
}

TEST_F(LogLimiterTest, CountsOfQuietNamesAreTakenOnce) {
  Admitted("a", 10);
  Admitted("b", 1);
  EXPECT_TRUE(limiter_.TakeSuppressed(now_, absl::Seconds(2)).empty())
      << "a is not quiet yet";
  now_ += absl::Seconds(2);
  const std::vector<LogLimiter::Suppressed> taken =
      limiter_.TakeSuppressed(now_, absl::Seconds(2));
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].name, "a");
  EXPECT_EQ(taken[0].lines, 5);
  EXPECT_TRUE(limiter_.TakeSuppressed(now_, absl::Seconds(2)).empty());
  EXPECT_EQ(limiter_.Admit("a", now_).suppressed, 0);
}

TEST_F(LogLimiterTest, AtTheEndAllCountsAreTaken) {
  Admitted("a", 10);
  EXPECT_EQ(limiter_.TakeSuppressed(now_, absl::ZeroDuration()).size(), 1u);
}

TEST_F(LogLimiterTest, NamesBeyondTheMostShareALimit) {
  for (int i = 0; i < 4; ++i) Admitted(absl::StrCat("name", i), 1);
  int admitted = 0;
  for (int i = 4; i < 100; ++i) {
    admitted += Admitted(absl::StrCat("name", i), 1);
  }
  EXPECT_EQ(admitted, 5);
}

}  // namespace
}  // namespace qgemm
