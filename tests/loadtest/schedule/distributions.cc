// SPDX-License-Identifier: Apache-2.0
//
// The incomplete gamma function by its series and its continued fraction
// (DLMF 8.11.4 and 8.9.2); the others follow from it.

#include "tests/loadtest/schedule/distributions.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace qgemm::loadtest {
namespace {

constexpr double kPrecision = 1e-15;

// x^a e^-x / Gamma(a).
double Density(double a, double x) {
  return std::exp(a * std::log(x) - x - std::lgamma(a));
}

// P(a, x); converges fast for x < a + 1.
double LowerBySeries(double a, double x) {
  double term = 1 / a;
  double sum = term;
  for (double n = 1; term > sum * kPrecision; ++n) {
    term *= x / (a + n);
    sum += term;
  }
  return sum * Density(a, x);
}

// 1 - P(a, x); converges fast for x > a + 1. Lentz's method.
double UpperByFraction(double a, double x) {
  constexpr double kTiny = std::numeric_limits<double>::min() / kPrecision;
  double b = x + 1 - a;
  double c = 1 / kTiny;
  double d = 1 / b;
  double fraction = d;
  double change = 0;
  for (double n = 1; std::fabs(change - 1) > kPrecision; ++n) {
    const double numerator = -n * (n - a);
    b += 2;
    d = 1 / (numerator * d + b);
    c = b + numerator / c;
    change = c * d;
    fraction *= change;
  }
  return fraction * Density(a, x);
}

}  // namespace

double GammaCdf(double a, double x) {
  if (x <= 0) return 0;
  return x < a + 1 ? LowerBySeries(a, x) : 1 - UpperByFraction(a, x);
}

double PoissonCdf(double mean, int64_t count) {
  return 1 - GammaCdf(static_cast<double>(count) + 1, mean);
}

double ChiSquareCdf(int64_t degrees_of_freedom, double x) {
  return GammaCdf(static_cast<double>(degrees_of_freedom) / 2, x / 2);
}

double KolmogorovSmirnov(std::vector<double> values,
                         absl::FunctionRef<double(double)> cdf) {
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  double distance = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double probability = cdf(values[i]);
    const auto rank = static_cast<double>(i);
    distance = std::max({distance, probability - rank / count,
                         (rank + 1) / count - probability});
  }
  return distance;
}

double KolmogorovSmirnovBound(int64_t values) {
  return std::sqrt(std::log(2 / kFalseAlarm) / (2.0 * values));
}

bool IsCredible(double probability) {
  return probability > kFalseAlarm / 2 && probability < 1 - kFalseAlarm / 2;
}

}  // namespace qgemm::loadtest
