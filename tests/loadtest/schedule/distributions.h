// SPDX-License-Identifier: Apache-2.0
//
// Distribution functions, and the bounds that tests of random numbers derive
// from a false-alarm probability.

#ifndef QGEMM_TESTS_LOADTEST_SCHEDULE_DISTRIBUTIONS_H_
#define QGEMM_TESTS_LOADTEST_SCHEDULE_DISTRIBUTIONS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

namespace qgemm::loadtest {

// Share of runs in which a right implementation may fail a test of random
// numbers.
inline constexpr double kFalseAlarm = 1e-6;

// P(a, x): probability that a gamma variable of shape a and scale 1 is at most
// x. `a` above 0. To about 1e-12.
double GammaCdf(double a, double x);

// Probability that a Poisson variable of this mean is at most `count`.
double PoissonCdf(double mean, int64_t count);

// Probability that a chi-square variable is at most x.
double ChiSquareCdf(int64_t degrees_of_freedom, double x);

// The largest distance of the values' empirical distribution from `cdf`.
double KolmogorovSmirnov(std::vector<double> values,
                         absl::FunctionRef<double(double)> cdf);

// Distance that is exceeded with a probability of at most kFalseAlarm, for
// any number of independent values: the inequality of Dvoretzky, Kiefer and
// Wolfowitz with Massart's constant, P(D > d) <= 2 exp(-2 n d^2).
double KolmogorovSmirnovBound(int64_t values);

// True if a value of the distribution function lies in neither tail of
// kFalseAlarm / 2.
bool IsCredible(double probability);

}  // namespace qgemm::loadtest

#endif  // QGEMM_TESTS_LOADTEST_SCHEDULE_DISTRIBUTIONS_H_
