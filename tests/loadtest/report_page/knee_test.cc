// SPDX-License-Identifier: Apache-2.0
//
// Curves with a bend and curves without.

#include "loadtest/report/page/knee.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Flat up to 8, then ten times as slow each step.
std::vector<RatePoint> Hockey() {
  return {{2, 100}, {4, 102}, {6, 104}, {8, 110}, {9, 1100}, {10, 11000}};
}

TEST(FindKnee, IsTheLastPointBeforeTheCurveTurnsUp) {
  EXPECT_EQ(FindKnee(Hockey()), 3u);
}

TEST(FindKnee, DoesNotDependOnTheOrder) {
  std::vector<RatePoint> points = Hockey();
  std::reverse(points.begin(), points.end());
  EXPECT_EQ(FindKnee(points), 2u);
}

TEST(FindKnee, DoesNotDependOnTheUnits) {
  std::vector<RatePoint> points = Hockey();
  for (RatePoint& point : points) {
    point.rate *= 1000;
    point.latency_ns *= 1e6;
  }
  EXPECT_EQ(FindKnee(points), 3u);
}

TEST(FindKnee, LeavesOutPointsWithoutRateOrLatency) {
  std::vector<RatePoint> points = Hockey();
  points.insert(points.begin(), {{0, 5}, {NAN, 5}, {3, 0}, {20, kInfinity}});
  EXPECT_EQ(FindKnee(points), 7u);
}

TEST(FindKnee, AnExponentialCurveHasNone) {
  EXPECT_FALSE(FindKnee({{1, 10}, {2, 100}, {3, 1000}, {4, 10000}}));
}

TEST(FindKnee, AFallingCurveHasNone) {
  EXPECT_FALSE(FindKnee({{1, 100}, {2, 10}, {3, 1}}));
}

TEST(FindKnee, NeedsThreePoints) {
  EXPECT_FALSE(FindKnee({}));
  EXPECT_FALSE(FindKnee({{1, 10}}));
  EXPECT_FALSE(FindKnee({{1, 10}, {2, 100}}));
  EXPECT_FALSE(FindKnee({{1, 10}, {1, 10}, {1, 10}}));
}

TEST(FindRate, IsTheHighestThatIsNotAbove) {
  const std::vector<RatePoint> points = Hockey();
  EXPECT_EQ(FindRate(points, 8.5), 3u);
  EXPECT_EQ(FindRate(points, 10), 5u);
  EXPECT_EQ(FindRate(points, 10 * (1 - 1e-12)), 5u);
  EXPECT_FALSE(FindRate(points, 1));
  EXPECT_FALSE(FindRate(points, 0));
  EXPECT_FALSE(FindRate(points, NAN));
}

}  // namespace
}  // namespace qgemm
