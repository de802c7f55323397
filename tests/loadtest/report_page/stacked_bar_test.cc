// SPDX-License-Identifier: Apache-2.0
//
// Parts, their words and bars of nothing.

#include "loadtest/report/page/stacked_bar.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/loadtest/report_page/well_formed.h"

namespace qgemm {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kWidthPx = 560;

StackedBar BarOf(std::vector<StackedBar::Part> parts) {
  return {"Time", "words", std::move(parts)};
}

std::string SvgOf(const StackedBar& bar) {
  return FormatSvg(bar, {kWidthPx, 112, "mid"});
}

TEST(StackedBar, NamesPartsThatHaveRoom) {
  const std::string svg = SvgOf(BarOf({{"queue", 4e5}, {"kernel <x>", 6e5}}));
  EXPECT_THAT(svg, HasSubstr(">1 queue</text>"));
  EXPECT_THAT(svg, HasSubstr(">2 kernel &lt;x&gt;</text>"));
  EXPECT_THAT(svg, HasSubstr(">400 µs</text>"));
  EXPECT_TRUE(IsWellFormed(svg));
}

TEST(StackedBar, NumbersPartsWithoutRoomForTheirName) {
  const std::string svg = SvgOf(BarOf({{"queue", 96e3}, {"to device", 4e3}}));
  EXPECT_THAT(svg, HasSubstr(">2</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(">2 to device</text>")));
  // What it is can still be pointed at.
  EXPECT_THAT(svg, HasSubstr("<title>to device: 4.00 µs</title>"));
}

TEST(StackedBar, WritesNothingOnSlivers) {
  const std::string svg = SvgOf(BarOf({{"queue", 1e6}, {"back", 1}}));
  EXPECT_THAT(svg, Not(HasSubstr(">2</text>")));
}

TEST(StackedBar, SaysNoDataWithoutAnythingAboveZero) {
  for (const double ns : {0.0, -5.0, double{NAN}, double{INFINITY}}) {
    const std::string svg = SvgOf(BarOf({{"queue", ns}}));
    EXPECT_THAT(svg, HasSubstr("no data"));
    EXPECT_TRUE(HasOnlyNumbers(svg));
  }
  EXPECT_THAT(SvgOf(BarOf({})), HasSubstr("no data"));
}

TEST(StackedBar, LeavesOutWhatIsNotFinite) {
  const std::string svg = SvgOf(BarOf({{"queue", NAN}, {"kernel", 5e3}}));
  EXPECT_THAT(svg, HasSubstr(">2 kernel</text>"));
  EXPECT_TRUE(HasOnlyNumbers(svg));
}

}  // namespace
}  // namespace qgemm
