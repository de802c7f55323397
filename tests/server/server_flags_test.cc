// SPDX-License-Identifier: Apache-2.0
//
// A flag that may be repeated, in every spelling that Abseil takes.

#include "server/server_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace qgemm {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Join(const std::vector<std::string>& arguments) {
  return JoinRepeated(arguments, "listen");
}

TEST(JoinRepeated, LeavesWhatItDoesNotConcern) {
  EXPECT_THAT(Join({"server", "--other", "x", "--listener=a"}),
              ElementsAre("server", "--other", "x", "--listener=a"));
}

TEST(JoinRepeated, JoinsEverySpelling) {
  EXPECT_THAT(Join({"server", "--listen=a", "-listen", "b", "--x", "--listen",
                    "c", "-listen=d,e"}),
              ElementsAre("server", "--listen=a,b,c,d,e", "--x"));
}

TEST(JoinRepeated, TakesAValueThatHoldsAnEqualsSign) {
  EXPECT_THAT(Join({"server", "--listen", "unix:a=b", "--listen=unix:c=d"}),
              ElementsAre("server", "--listen=unix:a=b,unix:c=d"));
}

TEST(JoinRepeated, LeavesAFlagWithoutItsValue) {
  EXPECT_THAT(Join({"server", "--listen"}), ElementsAre("server", "--listen"));
}

TEST(JoinRepeated, StopsWhereFlagsEnd) {
  EXPECT_THAT(Join({"server", "--listen=a", "--", "--listen=b"}),
              ElementsAre("server", "--listen=a", "--", "--listen=b"));
}

}  // namespace
}  // namespace qgemm
