// SPDX-License-Identifier: Apache-2.0
//
// LiveLine: what a terminal shows of a run.

#include "loadtest/live_line.h"

#include <sstream>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm::loadtest {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

SeriesPoint PointAt(absl::Duration start) {
  SeriesPoint point;
  point.start = start;
  point.length = absl::Milliseconds(100);
  point.answers = 123;
  point.p50_ns = 250000;
  point.p99_ns = 1500000;
  point.in_flight = 17;
  point.errors = 1;
  return point;
}

TEST(LiveLineTest, ShowsTheFiguresOfAnIntervalEveryHalfSecond) {
  std::ostringstream terminal;
  LiveLine line(&terminal, true);
  line.Begin("rate=5");
  line.Show(PointAt(absl::Milliseconds(2400)));
  EXPECT_THAT(terminal.str(),
              AllOf(HasSubstr("rate=5"), HasSubstr("2.5 s"),
                    HasSubstr(" 1230 answers/s"), HasSubstr("p50 250 us"),
                    HasSubstr("p99 1500 us"), HasSubstr("17 in flight"),
                    HasSubstr("1 errors")));
  for (int i = 25; i < 30; ++i) line.Show(PointAt(absl::Milliseconds(100 * i)));
  EXPECT_THAT(terminal.str(), AllOf(HasSubstr("3.0 s"), HasSubstr("6 errors"),
                                    Not(HasSubstr("2.9 s"))));
}

TEST(LiveLineTest, ATextOverwritesTheOneBefore) {
  std::ostringstream terminal;
  LiveLine line(&terminal, true);
  line.Say("a long step");
  line.Say("");
  EXPECT_EQ(terminal.str(), "\ra long step\x1b[K\r\x1b[K");
  LiveLine(nullptr, true).Say("nowhere");
}

TEST(LiveLineTest, IntoAFileOneLineFollowsTheOther) {
  std::ostringstream file;
  LiveLine line(&file, false);
  line.Say("a long step");
  line.Say("short");
  line.Say("");
  EXPECT_EQ(file.str(), "a long step\nshort\n");
}

}  // namespace
}  // namespace qgemm::loadtest
