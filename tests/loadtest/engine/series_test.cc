// SPDX-License-Identifier: Apache-2.0
//
// BlockSeries: how intervals become blocks, and how coarse their values are.

#include "loadtest/engine/series.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace qgemm::loadtest {
namespace {

constexpr int kFirst = BlockSeries::kFirstIntervals;
constexpr int kMost = BlockSeries::kMaxBlocks;

// Values below 2^7 are kept as they are.
Histogram Interval(int64_t value, int64_t count) {
  Histogram interval;
  interval.Record(value, count);
  return interval;
}

int64_t CountOf(const std::vector<Histogram>& blocks) {
  int64_t count = 0;
  for (const Histogram& block : blocks) count += block.count();
  return count;
}

TEST(BlockSeriesTest, ABlockHoldsConsecutiveIntervals) {
  BlockSeries series;
  for (int i = 0; i < 3 * kFirst; ++i) series.Append(Interval(i, 1));
  const std::vector<Histogram> blocks = series.Take();
  ASSERT_EQ(blocks.size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(blocks[i].count(), kFirst);
    EXPECT_EQ(blocks[i].min(), i * kFirst);
    EXPECT_EQ(blocks[i].max(), (i + 1) * kFirst - 1);
  }
}

TEST(BlockSeriesTest, AnUnfinishedBlockIsBetterThanNone) {
  BlockSeries series;
  series.Append(Interval(3, 2));
  const std::vector<Histogram> blocks = series.Take();
  ASSERT_EQ(blocks.size(), 1);
  EXPECT_EQ(blocks[0].count(), 2);
}

// Whatever the length of a run: few blocks, of equal length, that leave out
// less than one of them.
TEST(BlockSeriesTest, LongRunsHaveLongerBlocks) {
  for (int intervals = kFirst; intervals < 9 * kFirst * kMost;
       intervals += 37) {
    BlockSeries series;
    for (int i = 0; i < intervals; ++i) series.Append(Interval(1, 1));
    const std::vector<Histogram> blocks = series.Take();
    ASSERT_LE(blocks.size(), kMost) << intervals << " intervals";
    const int64_t length = blocks.front().count();
    for (const Histogram& block : blocks) ASSERT_EQ(block.count(), length);
    ASSERT_GT(CountOf(blocks) + length, intervals);
    if (intervals >= kFirst * kMost / 2) {
      ASSERT_GE(blocks.size(), kMost / 2) << intervals << " intervals";
    }
  }
}

// A value is moved to the middle of those that share its seven highest bits,
// of which the first is one: at most half of 2^-6 of it. What the histogram
// adds is its own bucket's width, 2^-10, before and after.
TEST(BlockSeriesTest, ValuesKeepSevenBits) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const int64_t value = static_cast<int64_t>(random() >> (2 + random() % 60));
    BlockSeries series;
    series.Append(Interval(value, 3));
    const std::vector<Histogram> blocks = series.Take();
    ASSERT_EQ(blocks.size(), 1);
    ASSERT_EQ(blocks[0].count(), 3);
    const double error = std::abs(static_cast<double>(blocks[0].min() - value));
    ASSERT_LE(error, static_cast<double>(value) * (0x1p-7 + 2 * 0x1p-10))
        << value;
  }
}

}  // namespace
}  // namespace qgemm::loadtest
