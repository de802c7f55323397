// SPDX-License-Identifier: Apache-2.0
//
// Distribution functions where a closed form or a table says what they are.

#include "tests/loadtest/random/distributions.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

constexpr double kTolerance = 1e-12;  // as the header promises

TEST(GammaCdf, OfShapeOneIsExponential) {
  for (double x : {0.001, 0.5, 1.9, 2.1, 10.0}) {
    EXPECT_NEAR(GammaCdf(1, x), 1 - std::exp(-x), kTolerance) << x;
  }
}

TEST(GammaCdf, OfShapeOneHalfIsAnErrorFunction) {
  for (double x : {0.001, 0.5, 1.4, 1.6, 10.0}) {
    EXPECT_NEAR(GammaCdf(0.5, x), std::erf(std::sqrt(x)), kTolerance) << x;
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

TEST(PoissonCdf, IsTheSumOfItsTerms) {
  EXPECT_NEAR(PoissonCdf(2, 0), std::exp(-2), kTolerance);
  EXPECT_NEAR(PoissonCdf(2, 2), 5 * std::exp(-2), kTolerance);
}

TEST(ChiSquareCdf, OfTwoDegreesIsExponential) {
  EXPECT_NEAR(ChiSquareCdf(2, 3), 1 - std::exp(-1.5), kTolerance);
}

TEST(KolmogorovSmirnov, IsTheLargestDistanceOnEitherSide) {
  const auto uniform = [](double x) { return x; };
  EXPECT_DOUBLE_EQ(KolmogorovSmirnov({0.5}, uniform), 0.5);
  EXPECT_DOUBLE_EQ(KolmogorovSmirnov({0.9, 0.2}, uniform), 0.4);
  EXPECT_DOUBLE_EQ(KolmogorovSmirnov({0.1, 0.3}, uniform), 0.7);
}

TEST(KolmogorovSmirnovBound, ShrinksWithTheRootOfTheCount) {
  EXPECT_DOUBLE_EQ(KolmogorovSmirnovBound(100),
                   10 * KolmogorovSmirnovBound(10000));
  // 2 exp(-2 n d^2) with n = 10000 and d = 0.02693 is 1e-6.
  EXPECT_NEAR(KolmogorovSmirnovBound(10000), 0.02693, 1e-5);
}

TEST(IsCredible, RefusesBothTails) {
  EXPECT_TRUE(IsCredible(0.5));
  EXPECT_FALSE(IsCredible(1e-7));
  EXPECT_FALSE(IsCredible(1 - 1e-7));
}

}  // namespace
}  // namespace qgemm
