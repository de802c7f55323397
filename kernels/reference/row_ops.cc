// SPDX-License-Identifier: Apache-2.0
//
// The formulas, each in a form that loses nothing to cancellation.

#include "kernels/reference/row_ops.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace qgemm::reference {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// (1 + tanh(u)) / 2 is sigmoid(2 u), without the cancellation below zero.
double GeluTanh(double x) {
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
  const double u = kSqrtTwoOverPi * (x + 0.044715 * x * x * x);
  return x * Sigmoid(2 * u);
}

// 1 + erf(u) is erfc(-u), without the cancellation below zero.
double GeluErf(double x) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  return x * std::erfc(-x * kSqrtHalf) / 2;
}

double MeanOfSquares(absl::Span<const double> x) {
  double sum = 0;
  for (const double element : x) sum += element * element;
  return sum / static_cast<double>(x.size());
}

}  // namespace

double Activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu:
      return x * Sigmoid(x);
    case Activation::kSigmoid:
      return Sigmoid(x);
    case Activation::kGeluErf:
      return GeluErf(x);
    case Activation::kGeluTanh:
      return GeluTanh(x);
    case Activation::kRelu:
      return x < 0 ? 0 : x;
    case Activation::kTanh:
      return std::tanh(x);
  }
  return x;
}

double Clamp(double x, double low, double high) {
  if (x < low) return low;
  return x > high ? high : x;
}

Row RmsNorm(absl::Span<const double> x, absl::Span<const double> weight,
            double eps, int64_t group) {
  Row result(x.begin(), x.end());
  const size_t run = group;
  for (size_t begin = 0; begin < x.size(); begin += run) {
    const double scale =
        1 / std::sqrt(MeanOfSquares(x.subspan(begin, run)) + eps);
    for (size_t j = begin; j < begin + run; ++j) {
      result[j] *= scale;
      if (!weight.empty()) result[j] *= weight[j % weight.size()];
    }
  }
  return result;
}

Row LayerNorm(absl::Span<const double> x, absl::Span<const double> weight,
              absl::Span<const double> bias, double eps) {
  const double mean =
      std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  Row result(x.begin(), x.end());
  for (double& element : result) element -= mean;
  const double scale = 1 / std::sqrt(MeanOfSquares(result) + eps);
  for (size_t j = 0; j < result.size(); ++j) {
    result[j] *= scale;
    if (!weight.empty()) result[j] *= weight[j];
    if (!bias.empty()) result[j] += bias[j];
  }
  return result;
}

std::vector<int32_t> TopColumns(absl::Span<const double> x, int64_t count) {
  const auto above = [](double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
    return a > b;
  };
  std::vector<int32_t> columns(x.size());
  std::iota(columns.begin(), columns.end(), 0);
  std::partial_sort(columns.begin(), columns.begin() + count, columns.end(),
                    [&](int32_t i, int32_t j) {
                      if (above(x[i], x[j])) return true;
                      return i < j && !above(x[j], x[i]);
                    });
  columns.resize(count);
  return columns;
}

}  // namespace qgemm::reference
