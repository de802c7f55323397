// SPDX-License-Identifier: Apache-2.0
//
// Gaps against the distributions that they are drawn from; each test of them
// raises a false alarm once in 10^6 runs.

#include "loadtest/schedule/unit_gaps.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/loadtest/random/distributions.h"

namespace qgemm {
namespace {

constexpr int kGaps = 100000;

std::vector<double> Gaps(const ArrivalProcess& process, uint64_t seed) {
  UnitGaps gaps(process, seed);
  gaps.First();
  std::vector<double> values;
  for (int i = 0; i < kGaps; ++i) values.push_back(gaps.Next());
  return values;
}

// Of every kind that is random; a Poisson process is one of gamma gaps of
// variation 1.
class RandomGaps : public testing::TestWithParam<ArrivalProcess> {
 protected:
  double shape() const {
    return 1 / (GetParam().variation * GetParam().variation);
  }

  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
};

TEST_P(RandomGaps, HaveTheirDistribution) {
  // A gap of variation 10 is below the smallest double, and then 0, with a
  // probability of 6e-4; that is far below the bound.
  EXPECT_LT(KolmogorovSmirnov(
                Gaps(GetParam(), seed_),
                [&](double x) { return GammaCdf(shape(), shape() * x); }),
            KolmogorovSmirnovBound(kGaps));
}

TEST_P(RandomGaps, HaveAMeanOfOne) {
  const std::vector<double> gaps = Gaps(GetParam(), seed_);
  const double sum = std::accumulate(gaps.begin(), gaps.end(), 0.0);
  // A sum of gamma variables is one, of the sum of their shapes.
  EXPECT_TRUE(IsCredible(GammaCdf(kGaps * shape(), shape() * sum))) << sum;
}

TEST_P(RandomGaps, StartInEquilibrium) {
  std::vector<double> firsts;
  for (int i = 0; i < kGaps; ++i) {
    firsts.push_back(UnitGaps(GetParam(), uint64_t{seed_} + i).First());
  }
  // The integral of 1 - F from 0 to x, F being the gaps' distribution.
  const auto forward_recurrence = [&](double x) {
    return x * (1 - GammaCdf(shape(), shape() * x)) +
           GammaCdf(shape() + 1, shape() * x);
  };
  EXPECT_LT(KolmogorovSmirnov(firsts, forward_recurrence),
            KolmogorovSmirnovBound(kGaps));
}

TEST_P(RandomGaps, DoNotDependOnEachOther) {
  // Pairs of neighbours by which quarter of the distribution each is in: 16
  // equally likely cells, over pairs that share no gap.
  const std::vector<double> gaps = Gaps(GetParam(), seed_);
  std::vector<int64_t> cells(16);
  const auto quarter = [&](double gap) {
    return std::min(static_cast<int>(4 * GammaCdf(shape(), shape() * gap)), 3);
  };
  for (int i = 0; i < kGaps; i += 2) {
    ++cells[4 * quarter(gaps[i]) + quarter(gaps[i + 1])];
  }
  const double expected = kGaps / 2.0 / 16;
  double chi_square = 0;
  for (int64_t count : cells) {
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_TRUE(IsCredible(ChiSquareCdf(15, chi_square))) << chi_square;
}

TEST_P(RandomGaps, FollowFromTheSeed) {
  EXPECT_EQ(Gaps(GetParam(), seed_), Gaps(GetParam(), seed_));
  EXPECT_NE(Gaps(GetParam(), seed_), Gaps(GetParam(), uint64_t{seed_} + 1));
}

INSTANTIATE_TEST_SUITE_P(
    UnitGaps, RandomGaps,
    testing::Values(ArrivalProcess{ArrivalKind::kPoisson, 1, ""},
                    ArrivalProcess{ArrivalKind::kGamma, 0.1, ""},
                    ArrivalProcess{ArrivalKind::kGamma, 0.5, ""},
                    ArrivalProcess{ArrivalKind::kGamma, 1, ""},
                    ArrivalProcess{ArrivalKind::kGamma, 2, ""},
                    ArrivalProcess{ArrivalKind::kGamma, 10, ""}));

TEST(UnitGaps, ConstantOnesStartInTheMiddle) {
  UnitGaps gaps({ArrivalKind::kConstant, 1, ""}, 1);
  EXPECT_EQ(gaps.First(), 0.5);
  EXPECT_EQ(gaps.Next(), 1.0);
  EXPECT_EQ(gaps.Next(), 1.0);
}

}  // namespace
}  // namespace qgemm
