// SPDX-License-Identifier: Apache-2.0
//
// Seeded random numbers against the outputs of the algorithms they are named
// after, and at the ends of their ranges.

#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "loadtest/workload/workload.h"
#include "tests/loadtest/schedule/distributions.h"

namespace qgemm::loadtest {
namespace {

constexpr uint64_t kAllOnes = std::numeric_limits<uint64_t>::max();

TEST(MixBits, IsSplitmix64) {
  // The first outputs of splitmix64 for the seed 1234567, as published at
  // https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64.
  const uint64_t step = 0x9e3779b97f4a7c15;
  EXPECT_EQ(MixBits(1234567), 6457827717110365317u);
  EXPECT_EQ(MixBits(1234567 + step), 3203168211198807973u);
  EXPECT_EQ(MixBits(1234567 + 2 * step), 9817491932198370423u);
}

TEST(UnitInterval, LeavesOneOut) {
  EXPECT_EQ(UnitInterval(0), 0.0);
  EXPECT_EQ(UnitInterval(kAllOnes), 1.0 - 0x1p-53);
  EXPECT_EQ(UnitInterval(uint64_t{1} << 63), 0.5);
}

TEST(BelowCount, CoversTheCountAndNoMore) {
  EXPECT_EQ(BelowCount(0, 7), 0u);
  EXPECT_EQ(BelowCount(kAllOnes, 7), 6u);
  EXPECT_EQ(BelowCount(uint64_t{1} << 63, 8), 4u);
  EXPECT_EQ(BelowCount(kAllOnes, 1), 0u);
}

constexpr double kTolerance = 1e-12;  // as the header promises

TEST(GammaCdf, OfShapeOneIsExponential) {
  for (double x : {0.001, 0.5, 1.9, 2.1, 10.0}) {
    EXPECT_NEAR(GammaCdf(1, x), 1 - std::exp(-x), kTolerance) << x;
  }
}

TEST(GammaCdf, HoldsForShapesFarFromOne) {
  // P(a + 1, x) = P(a, x) - x^a e^-x / Gamma(a + 1), on both sides of the
  // change of method.
  for (double a : {0.01, 100.0, 50000.0}) {
    for (double x : {a / 2, a, a + 0.9, a + 1.1, 2 * a}) {
      const double step = std::exp(a * std::log(x) - x - std::lgamma(a + 1));
      // The exponent cancels from terms of size a log a.
      const double tolerance = kTolerance * (1 + a);
      EXPECT_NEAR(GammaCdf(a + 1, x), GammaCdf(a, x) - step, tolerance)
          << a << " " << x;
    }
  }
}

TEST(KolmogorovSmirnov, IsTheLargestDistanceOnEitherSide) {
  const auto uniform = [](double x) { return x; };
  EXPECT_DOUBLE_EQ(KolmogorovSmirnov({0.5}, uniform), 0.5);
  EXPECT_DOUBLE_EQ(KolmogorovSmirnov({0.9, 0.2}, uniform), 0.4);
  EXPECT_DOUBLE_EQ(KolmogorovSmirnov({0.1, 0.3}, uniform), 0.7);
}

}  // namespace

}  // namespace qgemm::loadtest
