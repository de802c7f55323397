// SPDX-License-Identifier: Apache-2.0
//
// LiveLine: what a terminal shows of a run.

#include "loadtest/live_line.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm::loadtest {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

SeriesPoint PointAt(absl::Duration start) {
  SeriesPoint point;
  point.start = start;
  point.length = absl::Milliseconds(100);
  return point;
}

// One line of a terminal: '\r' returns to its begin, characters overwrite.
class FakeTerminal {
 public:
  LiveLine::Write Writer() {
    return [this](absl::string_view text) {
      ++writes_;
      for (char c : text) Put(c);
    };
  }

  std::string Shown() const {
    return line_.substr(0, line_.find_last_not_of(' ') + 1);
  }
  size_t cursor() const { return cursor_; }
  int writes() const { return writes_; }

 private:
  void Put(char c) {
    ASSERT_NE(c, '\n') << "scrolls";
    if (c == '\r') {
      cursor_ = 0;
      return;
    }
    if (cursor_ == line_.size()) line_.push_back(' ');
    line_[cursor_++] = c;
  }

  std::string line_;
  size_t cursor_ = 0;
  int writes_ = 0;
};

TEST(FormatLiveTest, ShowsTheFiguresOfAnInterval) {
  SeriesPoint point = PointAt(absl::Milliseconds(2400));
  point.answers = 123;
  point.p50_ns = 250000;
  point.p99_ns = 1500000;
  point.in_flight = 17;
  const std::string line = FormatLive(point, "", 3);
  EXPECT_THAT(line, HasSubstr("2.5 s"));
  EXPECT_THAT(line, HasSubstr(" 1230 answers/s"));
  EXPECT_THAT(line, HasSubstr("p50 250 us"));
  EXPECT_THAT(line, HasSubstr("p99 1500 us"));
  EXPECT_THAT(line, HasSubstr("17 in flight"));
  EXPECT_THAT(line, HasSubstr("3 errors"));
}

TEST(LiveLineTest, ShowsTheFirstPointAndThenOneEveryHalfSecond) {
  FakeTerminal terminal;
  LiveLine line(terminal.Writer(), LiveStyle::kTerminal);
  line.Begin("");
  for (int i = 0; i <= 10; ++i) line.Show(PointAt(absl::Milliseconds(100) * i));
  EXPECT_EQ(terminal.writes(), 3);
  EXPECT_THAT(terminal.Shown(), HasSubstr("1.1 s"));
}

TEST(LiveLineTest, AShorterTextLeavesNothingOfALongerOne) {
  FakeTerminal terminal;
  LiveLine line(terminal.Writer(), LiveStyle::kTerminal);
  line.Say("uploading a layer with a long name");
  line.Say("done");
  EXPECT_EQ(terminal.Shown(), "done");
  line.Say("something longer again");
  line.Say("short");
  EXPECT_EQ(terminal.Shown(), "short");
}

TEST(LiveLineTest, ClearLeavesAnEmptyLineAndTheCursorAtItsBegin) {
  FakeTerminal terminal;
  LiveLine line(terminal.Writer(), LiveStyle::kTerminal);
  line.Say("uploading");
  line.Clear();
  EXPECT_EQ(terminal.Shown(), "");
  EXPECT_EQ(terminal.cursor(), 0);
}

TEST(LiveLineTest, IntoAFileOneLineFollowsTheOther) {
  std::string file;
  LiveLine line([&](absl::string_view text) { absl::StrAppend(&file, text); },
                LiveStyle::kFile);
  line.Say("a long step");
  line.Say("short");
  line.Clear();
  EXPECT_EQ(file, "a long step\nshort\n");
}

}  // namespace
}  // namespace qgemm::loadtest
