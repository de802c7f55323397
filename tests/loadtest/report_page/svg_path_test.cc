// SPDX-License-Identifier: Apache-2.0
//
// Steps, gaps and thinning.

#include "loadtest/report/page/svg_path.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

TEST(StepCorners, GoHorizontallyToTheNextSpot) {
  const std::vector<Spot> corners = StepCorners({{0, 1}, {2, 5}});
  ASSERT_EQ(corners.size(), 3u);
  EXPECT_EQ(corners[1].x, 2);
  EXPECT_EQ(corners[1].y, 1);
}

TEST(StepCorners, LastUpToAGap) {
  EXPECT_EQ(LinePath(StepCorners({{0, 1}, {2, NAN}, {4, 5}, {6, 5}})),
            "M0 1H2M4 5H6");
}

TEST(LinePath, UsesTheShortestCommands) {
  EXPECT_EQ(LinePath({{0, 0}, {5, 0}, {5, 7}, {9.25, 8}}), "M0 0H5V7L9.2 8");
}

TEST(LinePath, DrawsALoneSpotAsADot) {
  EXPECT_EQ(LinePath({{3, 4}}), "M3 4h0");
  EXPECT_EQ(LinePath({{1, NAN}, {3, 4}, {5, NAN}}), "M3 4h0");
}

TEST(LinePath, IsEmptyWithoutAFiniteSpot) {
  EXPECT_EQ(LinePath({}), "");
  EXPECT_EQ(LinePath({{1, NAN}, {INFINITY, 2}}), "");
}

TEST(AreaPath, GoesThereAboveAndBackBelow) {
  EXPECT_EQ(AreaPath({{0, 9}, {4, 9}}, {{0, 1}, {4, 2}}), "M0 9H4V2L0 1Z");
}

TEST(AreaPath, StartsAgainAfterAGap) {
  EXPECT_EQ(AreaPath({{0, 9}, {1, 9}, {2, NAN}, {3, 9}, {4, 9}},
                     {{0, 1}, {1, 1}, {2, NAN}, {3, 1}, {4, 1}}),
            "M0 9H1V1H0ZM3 9H4V1H3Z");
}

TEST(Thinned, KeepsShortLinesAsTheyAre) {
  EXPECT_EQ(Thinned({{0, 1}, {1, 2}, {1, NAN}, {2, 3}}).size(), 4u);
}

TEST(Thinned, KeepsEndsAndExtremesOfEachColumn) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> height(0, 100);
  std::vector<Spot> spots;
  for (int i = 0; i < 5000; ++i) spots.push_back({i / 1000.0, height(random)});
  const std::vector<Spot> thin = Thinned(spots);
  EXPECT_LE(thin.size(), 5u * 4);
  const auto by_y = [](const Spot& a, const Spot& b) { return a.y < b.y; };
  for (int column = 0; column < 5; ++column) {
    const auto first = spots.begin() + 1000 * column;
    const double low = std::min_element(first, first + 1000, by_y)->y;
    const double high = std::max_element(first, first + 1000, by_y)->y;
    for (const double kept : {first->y, low, high, (first + 999)->y}) {
      EXPECT_TRUE(std::any_of(thin.begin(), thin.end(), [&](const Spot& spot) {
        return spot.y == kept;
      }));
    }
  }
  EXPECT_TRUE(
      std::is_sorted(thin.begin(), thin.end(),
                     [](const Spot& a, const Spot& b) { return a.x < b.x; }));
}

TEST(AlongLine, HasSpotsAtMostTwicePitchApart) {
  const std::vector<Spot> spots = AlongLine({{0, 0}, {100, 0}}, 5);
  ASSERT_GE(spots.size(), 2u);
  for (size_t i = 1; i < spots.size(); ++i) {
    EXPECT_LE(spots[i].x - spots[i - 1].x, 10);
  }
  EXPECT_EQ(spots.back().x, 100);
}

}  // namespace
}  // namespace qgemm
