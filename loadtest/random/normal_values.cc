// SPDX-License-Identifier: Apache-2.0
//
// A table of quantiles, and 16 random bits an index into it.

#include "loadtest/random/normal_values.h"

#include <array>
#include <cmath>
#include <cstddef>

namespace qgemm {
namespace {

constexpr int kQuantiles = 1 << 16;
using Quantiles = std::array<float, kQuantiles>;

double NormalCdf(double x) { return std::erfc(-x * std::sqrt(0.5)) / 2; }

double NormalDensity(double x) {
  constexpr double kOneOverRootTwoPi = 0.3989422804014327;
  return kOneOverRootTwoPi * std::exp(-x * x / 2);
}

Quantiles MakeQuantiles() {
  Quantiles quantiles;
  double x = -4.4;  // below the first
  for (int i = 0; i < kQuantiles / 2; ++i) {
    const double probability = (i + 0.5) / kQuantiles;
    // Newton's method from the quantile before. Below 0 the distribution is
    // convex: its steps converge from either side. Four reach a float's
    // precision even over the widest gap, the first.
    for (int step = 0; step < 4; ++step) {
      x += (probability - NormalCdf(x)) / NormalDensity(x);
    }
    quantiles[i] = static_cast<float>(x);
    quantiles[kQuantiles - 1 - i] = -quantiles[i];
  }
  return quantiles;
}

}  // namespace

void NormalValues::Fill(float deviation, absl::Span<float> values) {
  static const Quantiles quantiles = MakeQuantiles();
  constexpr size_t kValuesADraw = 4;
  size_t i = 0;
  for (; i + kValuesADraw <= values.size(); i += kValuesADraw) {
    const uint64_t bits = random_.Next();
    values[i] = deviation * quantiles[bits & 0xffff];
    values[i + 1] = deviation * quantiles[bits >> 16 & 0xffff];
    values[i + 2] = deviation * quantiles[bits >> 32 & 0xffff];
    values[i + 3] = deviation * quantiles[bits >> 48];
  }
  for (; i < values.size(); ++i) {
    values[i] = deviation * quantiles[random_.Next() >> 48];
  }
}

}  // namespace qgemm
