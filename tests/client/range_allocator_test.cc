// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "client/lane_segment.h"

namespace qgemm {
namespace {

TEST(RangeAllocatorTest, RoundsSizesToTheGranularity) {
  RangeAllocator ranges(256, 64);
  EXPECT_EQ(ranges.Allocate(1), 0);
  EXPECT_EQ(ranges.Allocate(65), 64);
  EXPECT_EQ(ranges.free_bytes(), 64);
  EXPECT_EQ(ranges.Allocate(64), 192);
  EXPECT_EQ(ranges.Allocate(1), std::nullopt);
}

TEST(RangeAllocatorTest, NeverGivesARestBelowTheGranularity) {
  RangeAllocator ranges(127, 64);
  EXPECT_EQ(ranges.free_bytes(), 64);
  EXPECT_EQ(ranges.Allocate(65), std::nullopt);
  RangeAllocator none(63, 64);
  EXPECT_EQ(none.Allocate(1), std::nullopt);
  EXPECT_EQ(none.largest_free(), 0);
}

TEST(RangeAllocatorTest, RefusesSizesThatRoundingWouldOverflow) {
  RangeAllocator ranges(128, 64);
  EXPECT_EQ(ranges.Allocate(INT64_MAX), std::nullopt);
  EXPECT_EQ(ranges.Allocate(128), 0);
}

TEST(RangeAllocatorTest, FreedNeighboursBecomeOne) {
  RangeAllocator ranges(256, 64);
  for (int64_t offset = 0; offset < 256; offset += 64) {
    ASSERT_EQ(ranges.Allocate(64), offset);
  }
  ranges.Free(0, 64);
  ranges.Free(128, 64);
  EXPECT_EQ(ranges.largest_free(), 64);
  ranges.Free(64, 64);
  EXPECT_EQ(ranges.largest_free(), 192);
  ranges.Free(192, 64);
  EXPECT_EQ(ranges.Allocate(256), 0);
}

// Against a map of taken units.
TEST(RangeAllocatorTest, RandomUseNeverOverlapsAndLosesNothing) {
  constexpr int64_t kUnits = 257;
  constexpr int64_t kUnit = 16;
  RangeAllocator ranges(kUnits * kUnit, kUnit);
  std::minstd_rand random(1);
  std::vector<bool> taken(kUnits);
  std::vector<std::pair<int64_t, int64_t>> held;  // offset, bytes
  const auto mark = [&](int64_t offset, int64_t bytes, bool value) {
    for (int64_t unit = offset / kUnit; unit * kUnit < offset + bytes; ++unit) {
      ASSERT_EQ(taken[unit], !value) << offset << " " << bytes;
      taken[unit] = value;
    }
  };
  const auto longest_gap = [&] {
    int64_t longest = 0;
    int64_t run = 0;
    for (const bool each : taken) {
      run = each ? 0 : run + 1;
      longest = std::max(longest, run);
    }
    return longest * kUnit;
  };
  for (int step = 0; step < 20000; ++step) {
    if (held.empty() || random() % 5 < 3) {
      const int64_t bytes = 1 + random() % (random() % 8 == 0 ? 1200 : 100);
      const auto offset = ranges.Allocate(bytes);
      ASSERT_EQ(offset.has_value(), bytes <= longest_gap()) << step;
      if (!offset.has_value()) continue;
      ASSERT_EQ(*offset % kUnit, 0);
      ASSERT_LE(*offset + bytes, kUnits * kUnit);
      mark(*offset, bytes, true);
      held.emplace_back(*offset, bytes);
    } else {
      std::swap(held[random() % held.size()], held.back());
      const auto [offset, bytes] = held.back();
      held.pop_back();
      mark(offset, bytes, false);
      ranges.Free(offset, bytes);
    }
    ASSERT_EQ(ranges.free_bytes(),
              std::count(taken.begin(), taken.end(), false) * kUnit);
    ASSERT_EQ(ranges.largest_free(), longest_gap());
  }
}

}  // namespace
}  // namespace qgemm
