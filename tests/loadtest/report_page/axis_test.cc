// SPDX-License-Identifier: Apache-2.0
//
// Ranges, ticks and places, the degenerate ones too.

#include "loadtest/report/page/axis.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

ValueRange RangeOf(const std::vector<double>& values) {
  ValueRange range;
  for (const double value : values) range.Include(value);
  return range;
}

std::vector<std::string> LabelsOf(const Axis& axis) {
  std::vector<std::string> labels;
  for (const Tick& tick : axis.ticks) {
    if (!tick.label.empty()) labels.push_back(tick.label);
  }
  return labels;
}

AxisSpec LogSpec() {
  AxisSpec spec;
  spec.scale = Scale::kLog;
  return spec;
}

TEST(ValueRange, LeavesOutWhatIsNotFinite) {
  const ValueRange range = RangeOf({NAN, 3, kInfinity, -2, -kInfinity});
  EXPECT_EQ(range.lowest(), -2);
  EXPECT_EQ(range.highest(), 3);
  EXPECT_EQ(range.lowest_positive(), 3);
  EXPECT_TRUE(RangeOf({NAN, kInfinity}).empty());
}

TEST(ScaleFor, IsLogFromATwentyfoldRangeOn) {
  EXPECT_EQ(ScaleFor(RangeOf({1, 20})), Scale::kLinear);
  EXPECT_EQ(ScaleFor(RangeOf({1, 21})), Scale::kLog);
  EXPECT_EQ(ScaleFor(RangeOf({0, 1, 21})), Scale::kLog);
  EXPECT_EQ(ScaleFor(RangeOf({-5, 0})), Scale::kLinear);
  EXPECT_EQ(ScaleFor(ValueRange()), Scale::kLinear);
}

TEST(LinearAxis, LabelsRoundValuesThatEncloseTheData) {
  const Axis axis = MakeAxis(AxisSpec(), RangeOf({130, 870}), 5);
  EXPECT_EQ(axis.lowest, 0);
  EXPECT_EQ(axis.highest, 1000);
  EXPECT_THAT(LabelsOf(axis),
              ElementsAre("0", "200", "400", "600", "800", "1,000"));
}

TEST(LinearAxis, KeepsGivenEnds) {
  AxisSpec spec;
  spec.lowest = -1;
  spec.highest = 10.3;
  spec.quantity = Quantity::kSeconds;
  const Axis axis = MakeAxis(spec, ValueRange(), 3);
  EXPECT_EQ(axis.lowest, -1);
  EXPECT_EQ(axis.highest, 10.3);
  EXPECT_THAT(LabelsOf(axis), ElementsAre("0 s", "5 s", "10 s"));
}

TEST(LinearAxis, MakesRoomAroundEqualValues) {
  for (const double value : {0.0, 7.0, -7.0, 1e300, -1e-300}) {
    const Axis axis = MakeAxis(AxisSpec(), RangeOf({value, value}), 5);
    EXPECT_LT(axis.lowest, axis.highest) << value;
    EXPECT_LE(axis.lowest, value);
    EXPECT_GE(axis.highest, value);
  }
}

TEST(LinearAxis, HasTicksWithoutData) {
  EXPECT_GE(MakeAxis(AxisSpec(), ValueRange(), 5).ticks.size(), 2u);
}

TEST(LinearAxis, EndsWhereNeighboursCannotBeToldApart) {
  const Axis axis = MakeAxis(AxisSpec(), RangeOf({1e18, 1e18 + 256}), 4);
  EXPECT_LE(axis.ticks.size(), 9u);
}

TEST(LogAxis, LabelsDecadesAndHasMinorTicksBetween) {
  AxisSpec spec = LogSpec();
  spec.quantity = Quantity::kNanoseconds;
  const Axis axis = MakeAxis(spec, RangeOf({100, 1e6}), 5);
  EXPECT_THAT(LabelsOf(axis),
              ElementsAre("100 ns", "1 µs", "10 µs", "100 µs", "1 ms"));
  EXPECT_EQ(axis.ticks.size(), 4u * 9 + 1);
}

TEST(LogAxis, LabelsTwoAndFiveWhereThereIsRoom) {
  EXPECT_THAT(LabelsOf(MakeAxis(LogSpec(), RangeOf({1, 100}), 7)),
              ElementsAre("1", "2", "5", "10", "20", "50", "100"));
}

TEST(LogAxis, SkipsDecadesWhereThereAreTooMany) {
  const Axis axis = MakeAxis(LogSpec(), RangeOf({1, 1e12}), 5);
  EXPECT_LE(LabelsOf(axis).size(), 5u);
  EXPECT_GE(LabelsOf(axis).size(), 3u);
}

TEST(LogAxis, StartsAtTheSmallestPositiveValueIfThereIsAZero) {
  const Axis axis = MakeAxis(LogSpec(), RangeOf({0, -3, 30, 500}), 5);
  EXPECT_EQ(axis.lowest, 20);
  EXPECT_EQ(axis.highest, 500);
  EXPECT_EQ(axis.Position(0), 0);
}

TEST(LogAxis, ExistsWithoutPositiveValues) {
  const Axis axis = MakeAxis(LogSpec(), RangeOf({0, -1}), 5);
  EXPECT_GT(axis.lowest, 0);
  EXPECT_GT(axis.highest, axis.lowest);
}

TEST(LogAxis, MakesRoomAroundEqualValues) {
  const Axis axis = MakeAxis(LogSpec(), RangeOf({10, 10}), 5);
  EXPECT_LT(axis.lowest, axis.highest);
}

TEST(Axis, PlacesValuesBetweenItsEnds) {
  Axis axis;
  axis.lowest = 10;
  axis.highest = 1000;
  EXPECT_EQ(axis.Position(505), 0.5);
  axis.scale = Scale::kLog;
  EXPECT_DOUBLE_EQ(axis.Position(100), 0.5);
  EXPECT_EQ(axis.Position(1), 0);
  EXPECT_EQ(axis.Position(1e9), 1);
  EXPECT_EQ(axis.Position(NAN), 0);
}

TEST(Axis, TakesGivenTicksWithinItsEnds) {
  AxisSpec spec = LogSpec();
  spec.lowest = 1;
  spec.highest = 50;
  spec.ticks = {{1, "0 %"}, {10, "90 %"}, {100, "99 %"}};
  EXPECT_THAT(LabelsOf(MakeAxis(spec, ValueRange(), 5)),
              ElementsAre("0 %", "90 %"));
}

TEST(Axis, DoesWithoutEndsThatAreNotFiniteOrTooLarge) {
  for (const Scale scale : {Scale::kLinear, Scale::kLog}) {
    for (const double end : {kInfinity, -kInfinity, 1e308, -1e308}) {
      AxisSpec spec;
      spec.scale = scale;
      spec.lowest = spec.highest = end;
      const Axis axis = MakeAxis(spec, RangeOf({1, 5}), 5);
      EXPECT_LE(axis.lowest, 1);
      EXPECT_EQ(axis.highest, 5);
    }
  }
}

TEST(Axis, RandomRangesHaveAscendingTicksWithinFiniteEnds) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> exponent(-320, 320);
  for (int i = 0; i < 2000; ++i) {
    AxisSpec spec;
    spec.scale = i % 2 == 0 ? Scale::kLinear : Scale::kLog;
    const double sign = i % 3 == 0 ? -1 : 1;
    const ValueRange range = RangeOf({sign * std::pow(10, exponent(random)),
                                      std::pow(10, exponent(random))});
    const Axis axis = MakeAxis(spec, range, i % 12);
    ASSERT_TRUE(std::isfinite(axis.lowest) && std::isfinite(axis.highest));
    ASSERT_LT(axis.lowest, axis.highest);
    double last = -kInfinity;
    for (const Tick& tick : axis.ticks) {
      ASSERT_GT(tick.value, last);
      ASSERT_TRUE(std::isfinite(axis.Position(tick.value)));
      last = tick.value;
    }
  }
}

}  // namespace
}  // namespace qgemm
