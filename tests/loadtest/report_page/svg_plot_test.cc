// SPDX-License-Identifier: Apache-2.0
//
// Plots of ordinary and of degenerate data.

#include "loadtest/report/page/svg_plot.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/loadtest/report_page/well_formed.h"

namespace qgemm {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

PlotSize Size() { return {560, 320, "mid"}; }

Plot PlotOf(Mark mark, const std::vector<PlotPoint>& points) {
  Plot plot;
  plot.title = "a <title>";
  plot.description = "words & \"quotes\"";
  plot.x.title = "time";
  plot.y.title = "latency";
  plot.series = {{"p50", mark, 0, points}};
  return plot;
}

Plot Line() {
  return PlotOf(Mark::kLine, {{0, 1, ""}, {1, 2, ""}, {2, 8, ""}});
}

void ExpectSound(const std::string& svg) {
  EXPECT_TRUE(IsWellFormed(svg));
  EXPECT_TRUE(HasOnlyNumbers(svg));
}

TEST(SvgPlot, HasRoleTitleAndDescriptionEscaped) {
  const std::string svg = FormatSvg(Line(), Size());
  EXPECT_THAT(svg, HasSubstr("role=\"img\""));
  EXPECT_THAT(svg, HasSubstr("<title>a &lt;title&gt;</title>"));
  EXPECT_THAT(svg, HasSubstr("<desc>words &amp; &quot;quotes&quot;</desc>"));
  ExpectSound(svg);
}

TEST(SvgPlot, ScalesByItsViewBox) {
  const std::string svg = FormatSvg(Line(), Size());
  EXPECT_THAT(svg, HasSubstr("viewBox=\"0 0 560 320\""));
  EXPECT_THAT(svg, HasSubstr("class=\"plot mid\""));
}

TEST(SvgPlot, NamesAxesAndSeries) {
  const std::string svg = FormatSvg(Line(), Size());
  for (const char* text : {">time<", ">latency<", ">p50<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

TEST(SvgPlot, ShortensNamesThatAreWiderThanThePicture) {
  Plot plot = Line();
  plot.series[0].name = std::string(200, 'm');
  plot.x.title = plot.subtitle = plot.series[0].name;
  for (const std::string& svg :
       {FormatSvg(plot, Size()), FormatStandaloneSvg(plot, Size())}) {
    EXPECT_THAT(svg, HasSubstr("mmm…</text>"));
    EXPECT_THAT(svg, Not(HasSubstr(plot.series[0].name)));
  }
}

TEST(SvgPlot, SaysNoDataWithoutFiniteValues) {
  const std::vector<std::vector<PlotPoint>> nothings = {
      {}, {{NAN, 1, ""}, {1, kInfinity, ""}, {kInfinity, 1, ""}}};
  for (const auto& points : nothings) {
    const std::string svg = FormatSvg(PlotOf(Mark::kLine, points), Size());
    EXPECT_THAT(svg, HasSubstr("no data"));
    ExpectSound(svg);
  }
}

TEST(SvgPlot, DrawsOnePointAndEqualValues) {
  for (const Mark mark : {Mark::kLine, Mark::kSteps, Mark::kPoints,
                          Mark::kLineAndPoints, Mark::kBars}) {
    for (const double y : {0.0, 5.0}) {
      const std::string one = FormatSvg(PlotOf(mark, {{1, y, ""}}), Size());
      EXPECT_THAT(one, Not(HasSubstr("no data")));
      ExpectSound(one);
      ExpectSound(FormatSvg(PlotOf(mark, {{1, y, ""}, {2, y, ""}, {3, y, ""}}),
                            Size()));
    }
  }
}

TEST(SvgPlot, PutsZerosOfALogAxisAtItsFoot) {
  Plot plot = PlotOf(Mark::kPoints, {{0, 0, ""}, {1, 10, ""}, {2, 1000, ""}});
  plot.y.scale = Scale::kLog;
  const std::string svg = FormatSvg(plot, Size());
  ExpectSound(svg);
  EXPECT_THAT(svg, Not(HasSubstr("no data")));
}

TEST(SvgPlot, WritesRuleAndShadeWords) {
  Plot plot = Line();
  plot.rules = {{Rule::Direction::kHorizontal, 4, "SLO <p99>"},
                {Rule::Direction::kVertical, 1, "knee"}};
  plot.shades = {{0, 1, "warm-up"}};
  const std::string svg = FormatSvg(plot, Size());
  EXPECT_THAT(svg, HasSubstr(">SLO &lt;p99&gt;</text>"));
  EXPECT_THAT(svg, HasSubstr(">knee</text>"));
  EXPECT_THAT(svg, HasSubstr(">warm-up</text>"));
  ExpectSound(svg);
}

TEST(SvgPlot, ReachesToARuleBeyondTheData) {
  Plot plot = Line();
  plot.rules = {{Rule::Direction::kHorizontal, 90, "SLO"}};
  EXPECT_THAT(FormatSvg(plot, Size()), HasSubstr(">100</text>"));
}

TEST(SvgPlot, NotesAreTitlesOfTheirMarks) {
  const Plot plot = PlotOf(Mark::kPoints, {{0, 1, "first & last"}});
  EXPECT_THAT(FormatSvg(plot, Size()),
              HasSubstr("<title>first &amp; last</title>"));
}

TEST(SvgPlot, TellsSeriesApartWithoutColour) {
  Plot plot = Line();
  plot.series.push_back(plot.series[0]);
  plot.series.back().style = 1;
  const std::string svg = FormatSvg(plot, Size());
  EXPECT_THAT(svg, HasSubstr("class=\"line s0\""));
  EXPECT_THAT(svg, HasSubstr("class=\"line s1\""));
}

TEST(SvgPlot, ThinsLongSeries) {
  std::vector<PlotPoint> points;
  for (int i = 0; i < 100000; ++i) {
    points.push_back({i / 100.0, std::sin(i), ""});
  }
  EXPECT_LT(FormatSvg(PlotOf(Mark::kLine, points), Size()).size(), 60000u);
}

TEST(StandaloneSvg, CarriesItsStyleAndHeading) {
  Plot plot = Line();
  plot.subtitle = "of what";
  const std::string svg = FormatStandaloneSvg(plot, Size());
  EXPECT_THAT(svg, HasSubstr("xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(svg, HasSubstr(">of what</text>"));
  ExpectSound(svg);
}

double RandomValue(std::mt19937* random) {
  switch ((*random)() % 8) {
    case 0:
      return NAN;
    case 1:
      return (*random)() % 2 == 0 ? kInfinity : -kInfinity;
    case 2:
      return 0;
    default:
      break;
  }
  std::uniform_real_distribution<double> exponent(-310, 308);
  const double sign = (*random)() % 3 == 0 ? -1 : 1;
  return sign * std::pow(10, exponent(*random));
}

Plot RandomPlot(std::mt19937* random) {
  const auto scale = [&] {
    return (*random)() % 2 == 0 ? Scale::kLinear : Scale::kLog;
  };
  Plot plot;
  plot.x.scale = scale();
  plot.y.scale = scale();
  plot.y.quantity = static_cast<Quantity>((*random)() % 4);
  for (int i = 0; i < 3; ++i) {
    Series series = {"s", static_cast<Mark>((*random)() % 5), i, {}};
    Band band = {"b", i, {}};
    for (uint32_t k = (*random)() % 6; k > 0; --k) {
      series.points.push_back({RandomValue(random), RandomValue(random), ""});
      band.points.push_back(
          {RandomValue(random), RandomValue(random), RandomValue(random)});
    }
    plot.series.push_back(series);
    plot.bands.push_back(band);
  }
  plot.rules = {{Rule::Direction::kVertical, RandomValue(random), "r"}};
  plot.callouts = {{RandomValue(random), RandomValue(random), "c", 0}};
  plot.shades = {{RandomValue(random), RandomValue(random), "w"}};
  plot.x.lowest = RandomValue(random);
  plot.y.highest = RandomValue(random);
  return plot;
}

TEST(SvgPlot, RandomPlotsAreWellFormedAndFinite) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 300; ++i) {
    ExpectSound(FormatSvg(RandomPlot(&random), Size()));
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace qgemm
