// SPDX-License-Identifier: Apache-2.0
//
// Normal values against the normal distribution.

#include "loadtest/random/normal_values.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "tests/loadtest/random/distributions.h"

namespace qgemm {
namespace {

class NormalValuesTest : public testing::Test {
 protected:
  std::vector<float> Draw(int count, float deviation = 1) const {
    std::vector<float> values(count);
    NormalValues(seed_).Fill(deviation, absl::MakeSpan(values));
    return values;
  }

  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
};

TEST_F(NormalValuesTest, HaveTheNormalDistribution) {
  constexpr int kValues = 1000000;
  const std::vector<float> values = Draw(kValues);
  // A step of the 65536 quantiles is the most that the table adds.
  EXPECT_LT(KolmogorovSmirnov(
                {values.begin(), values.end()},
                [](double x) { return std::erfc(-x * std::sqrt(0.5)) / 2; }),
            KolmogorovSmirnovBound(kValues) + 1.0 / 65536);
}

TEST_F(NormalValuesTest, EachQuantileComesAndEachIsRight) {
  // A quantile is missing with a probability of e^-40 each.
  const std::vector<float> values = Draw(40 * 65536);
  const std::set<float> quantiles(values.begin(), values.end());
  ASSERT_EQ(quantiles.size(), 65536);
  double expected = 0.5 / 65536;
  for (const float quantile : quantiles) {
    const double probability = std::erfc(-quantile * std::sqrt(0.5)) / 2;
    // A float's rounding, times the density's largest value, 0.4, or the
    // density's times 4.4 further out: less than 2^-24 either way.
    EXPECT_NEAR(probability, expected, 0x1p-24);
    expected += 1.0 / 65536;
  }
}

TEST_F(NormalValuesTest, NeighboursAreIndependent) {
  // By the signs of four neighbours, which come of one draw: 16 equal cells.
  constexpr int kDraws = 100000;
  const std::vector<float> values = Draw(4 * kDraws);
  std::vector<int64_t> counts(16);
  for (int i = 0; i < 4 * kDraws; i += 4) {
    ++counts[(values[i] > 0) + 2 * (values[i + 1] > 0) +
             4 * (values[i + 2] > 0) + 8 * (values[i + 3] > 0)];
  }
  double chi_square = 0;
  for (int64_t count : counts) {
    const double expected = kDraws / 16.0;
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_TRUE(IsCredible(ChiSquareCdf(15, chi_square))) << chi_square;
}

TEST_F(NormalValuesTest, AreScaledByTheDeviation) {
  const std::vector<float> values = Draw(103);
  const std::vector<float> halves = Draw(103, 0.5f);
  for (int i = 0; i < 103; ++i) EXPECT_EQ(halves[i], values[i] / 2);
}

TEST_F(NormalValuesTest, GoOnWhereTheyStopped) {
  NormalValues random(seed_);
  std::vector<float> first(7);
  std::vector<float> second(7);
  random.Fill(1, absl::MakeSpan(first));
  random.Fill(1, absl::MakeSpan(second));
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace qgemm
