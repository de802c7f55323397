// SPDX-License-Identifier: Apache-2.0
//
// Places in one chunk.

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>

#include "base/checked_math.h"
#include "kernels/host/weights_arena.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

constexpr int64_t kStep = kPlaceStepBytes;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST(FreeRangesTest, TakesTheSmallestRangeThatHasRoom) {
  FreeRanges ranges(100 * kStep);
  ASSERT_TRUE(
      ranges.TakeAt(10 * kStep, kStep));  // free: 10 before it, 89 after
  EXPECT_EQ(ranges.Take(9 * kStep + 1), 0);
  EXPECT_EQ(ranges.Take(1), 11 * kStep);
  EXPECT_EQ(ranges.Take(89 * kStep), std::nullopt);
  EXPECT_EQ(ranges.free_bytes(), 88 * kStep);
}

TEST(FreeRangesTest, RefusesPlacesThatAreNotThere) {
  FreeRanges ranges(100 * kStep);
  EXPECT_FALSE(ranges.TakeAt(0, 100 * kStep + 1));
  EXPECT_FALSE(ranges.TakeAt(-kStep, kStep));
  EXPECT_FALSE(ranges.TakeAt(1, kStep));
  EXPECT_FALSE(ranges.TakeAt(100 * kStep, 1));
  EXPECT_FALSE(ranges.TakeAt(0, 0));
  EXPECT_FALSE(ranges.TakeAt(0, -1));
  EXPECT_FALSE(ranges.TakeAt(kStep, kMost));
  EXPECT_FALSE(ranges.TakeAt(kMost / kStep * kStep, kStep));
  EXPECT_EQ(ranges.Take(0), std::nullopt);
  EXPECT_EQ(ranges.Take(kMost), std::nullopt);
  EXPECT_TRUE(ranges.all_free());
  EXPECT_TRUE(ranges.TakeAt(99 * kStep, kStep));
  EXPECT_FALSE(ranges.TakeAt(98 * kStep, kStep + 1));
}

TEST(FreeRangesTest, RandomPlacesNeverOverlapAndAllComesBack) {
  RandomGenerator random(FreshSeed());
  FreeRanges ranges(1000 * kStep);
  std::map<int64_t, int64_t> taken;  // bytes by begin
  for (int i = 0; i < 20000; ++i) {
    if (RandomInt(0, 1, &random) == 0) {
      const int64_t bytes = RandomInt(1, 60 * kStep, &random);
      const auto offset = ranges.Take(bytes);
      if (!offset.has_value()) continue;
      ASSERT_EQ(*offset % kStep, 0);
      const auto next = taken.lower_bound(*offset);
      if (next != taken.end()) {
        ASSERT_LE(*offset + bytes, next->first);
      }
      if (next != taken.begin()) {
        const auto before = std::prev(next);
        ASSERT_LE(before->first + before->second, *offset);
      }
      taken[*offset] = bytes;
    } else if (!taken.empty()) {
      const auto place =
          std::next(taken.begin(), RandomInt(0, taken.size() - 1, &random));
      ranges.Give(place->first, place->second);
      taken.erase(place);
    }
    int64_t taken_bytes = 0;
    for (const auto& [unused, bytes] : taken) {
      taken_bytes += RoundUp(bytes, kStep);
    }
    ASSERT_EQ(ranges.free_bytes(), 1000 * kStep - taken_bytes);
  }
  for (const auto& [offset, bytes] : taken) ranges.Give(offset, bytes);
  EXPECT_TRUE(ranges.all_free());
  EXPECT_EQ(ranges.Take(1000 * kStep), 0);
}

}  // namespace
}  // namespace qgemm
