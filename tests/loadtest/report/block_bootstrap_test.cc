// SPDX-License-Identifier: Apache-2.0
//
// Figures of weighted blocks, and what the intervals depend on.

#include "loadtest/report/block_bootstrap.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

// A cell is at most 1/64 of its value wide.
constexpr double kCell = 1.0 / 64;

std::vector<Histogram> RandomBlocks(size_t count, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> value(std::log(1e5), 0.3);
  std::vector<Histogram> blocks(count);
  for (Histogram& block : blocks) {
    for (int i = 0; i < 200; ++i) {
      block.Record(static_cast<int64_t>(value(random)));
    }
  }
  return blocks;
}

class BlockBootstrapTest : public testing::Test {
 protected:
  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
};

TEST_F(BlockBootstrapTest, AllBlocksOnceAreTheMergedHistogram) {
  const std::vector<Histogram> blocks = RandomBlocks(7, seed_);
  Histogram merged;
  for (const Histogram& block : blocks) merged.Merge(block);
  const BlockValues values(blocks);
  const std::vector<double> once(7, 1);
  EXPECT_EQ(values.Count().value(once), merged.count());
  // Sums of 1400 numbers, added in another order.
  EXPECT_NEAR(values.Mean().value(once), merged.mean(), merged.mean() * 1e-12);
  for (double percent : {1.0, 50.0, 90.0, 99.0, 100.0}) {
    const auto exact = static_cast<double>(merged.Percentile(percent));
    EXPECT_NEAR(values.Percentile(percent).value(once), exact, exact * kCell)
        << percent;
  }
}

TEST_F(BlockBootstrapTest, AWeightIsThatManyCopies) {
  const std::vector<Histogram> blocks = RandomBlocks(3, seed_);
  std::vector<Histogram> copied;
  for (size_t block : {0, 0, 2}) copied.push_back(blocks[block]);
  const BlockValues values(blocks);
  const BlockValues copies(copied);
  const std::vector<double> weights = {2, 0, 1};
  const std::vector<double> once(3, 1);
  EXPECT_EQ(values.Count().value(weights), copies.Count().value(once));
  for (double percent : {10.0, 50.0, 99.0}) {
    const double expected = copies.Percentile(percent).value(once);
    // Ranks and shares of a cell are rounded to doubles.
    EXPECT_NEAR(values.Percentile(percent).value(weights), expected,
                expected * 1e-9);
  }
}

TEST_F(BlockBootstrapTest, QuotientsAreOfTheWeightedSums) {
  const BlockStatistic quotient = QuotientOfSums({1, 10, 100}, {1, 2, 4});
  EXPECT_EQ(quotient.blocks, 3);
  EXPECT_EQ(quotient.value(std::vector<double>{0, 2, 1}), 120.0 / 8);
  EXPECT_EQ(quotient.value(std::vector<double>{0, 0, 0}), 0);
}

TEST_F(BlockBootstrapTest, TheSameInputGivesTheSameInterval) {
  const BlockValues a(RandomBlocks(10, seed_));
  const BlockValues b(RandomBlocks(12, seed_ + 1));
  const auto first = BootstrapRatio(a.Percentile(99), b.Percentile(99));
  const auto second = BootstrapRatio(a.Percentile(99), b.Percentile(99));
  ASSERT_TRUE(first.has_value());
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(first->low, second->low);
  EXPECT_EQ(first->high, second->high);
}

TEST_F(BlockBootstrapTest, FewBlocksHaveNoInterval) {
  const BlockValues few(RandomBlocks(kFewestBlocks - 1, seed_));
  const BlockValues enough(RandomBlocks(kFewestBlocks, seed_));
  EXPECT_FALSE(BootstrapRatio(few.Mean(), enough.Mean()).has_value());
  EXPECT_FALSE(BootstrapRatio(enough.Mean(), few.Mean()).has_value());
  EXPECT_TRUE(BootstrapRatio(enough.Mean(), enough.Mean()).has_value());
}

TEST_F(BlockBootstrapTest, EmptyBlocksHaveNoInterval) {
  const std::vector<Histogram> empty(10);
  const BlockValues none(empty);
  const BlockValues some(RandomBlocks(10, seed_));
  EXPECT_FALSE(BootstrapRatio(none.Count(), some.Count()).has_value());
  EXPECT_FALSE(BootstrapRatio(some.Percentile(50), none.Percentile(50)));
  EXPECT_FALSE(BootstrapRatio(some.Mean(), none.Mean()).has_value());
}

TEST_F(BlockBootstrapTest, TheIntervalHasTheWidthOfTheory) {
  // Means of 400 independent blocks of a known relative deviation d: the
  // ratio's is d * sqrt(2 / 400), of which 1.96 lie to either side.
  const double deviation = 0.2;
  std::mt19937_64 random(seed_);
  std::normal_distribution<double> value(1, deviation);
  std::vector<double> a(400);
  std::vector<double> b(400);
  for (double& each : a) each = value(random);
  for (double& each : b) each = value(random);
  const std::vector<double> ones(400, 1);
  const auto interval =
      BootstrapRatio(QuotientOfSums(a, ones), QuotientOfSums(b, ones));
  ASSERT_TRUE(interval.has_value());
  const double expected = 2 * 1.96 * deviation * std::sqrt(2.0 / 400);
  // The sample's deviation is known to 1 / sqrt(2 * 800) = 2.5 %, a quantile of
  // 2000 resamples to about 3 %; five times their sum in squares.
  EXPECT_NEAR(interval->high - interval->low, expected, 0.2 * expected);
}

TEST_F(BlockBootstrapTest, TheFewestBlocksAreNotTooSure) {
  constexpr int kTrials = 300;
  std::mt19937_64 random(seed_);
  std::normal_distribution<double> value(1, 0.1);
  const std::vector<double> ones(kFewestBlocks, 1);
  int missed = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> a(kFewestBlocks);
    std::vector<double> b(kFewestBlocks);
    for (double& each : a) each = value(random);
    for (double& each : b) each = value(random);
    const BlockStatistic of_a = QuotientOfSums(a, ones);
    const BlockStatistic of_b = QuotientOfSums(b, ones);
    const auto interval = BootstrapRatio(of_a, of_b);
    ASSERT_TRUE(interval.has_value());
    const double ratio = of_b.value(ones) / of_a.value(ones);
    if (ratio * interval->low > 1 || ratio * interval->high < 1) ++missed;
  }
  // 5 % of 300 are 15, of deviation sqrt(300 * 0.05 * 0.95) = 3.8; five of
  // those more come by chance once in a million.
  EXPECT_LE(missed, 15 + 5 * 3.8);
}

TEST_F(BlockBootstrapTest, ValuesOfOneCellAreNotTakenForCertain) {
  std::vector<Histogram> blocks(60);
  for (Histogram& block : blocks) block.Record(100'000, 50);
  const BlockValues values(blocks);
  const auto interval =
      BootstrapRatio(values.Percentile(50), values.Percentile(50));
  ASSERT_TRUE(interval.has_value());
  // Anywhere in a step, uniformly: of deviation step / sqrt(12), and of two
  // means of 60 that times sqrt(2 / 60); 1.96 of them are 0.16 %.
  const double least = 1.96 * kCell / std::sqrt(12.0) * std::sqrt(2.0 / 60);
  EXPECT_LT(interval->low, 1 - 0.99 * least);
  EXPECT_GT(interval->high, 1 + 0.99 * least);
}

}  // namespace
}  // namespace qgemm
