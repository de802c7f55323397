// SPDX-License-Identifier: Apache-2.0
//
// Exponential by inversion, normal by Marsaglia's polar method, gamma by
// Marsaglia and Tsang.

#include "loadtest/schedule/unit_gaps.h"

#include <cmath>

#include "base/check.h"

namespace qgemm {

UnitGaps::GammaConstants::GammaConstants(double shape)
    : d(shape - 1.0 / 3), c(1 / std::sqrt(9 * d)) {}

UnitGaps::UnitGaps(const ArrivalProcess& process, uint64_t seed)
    : kind_(process.kind),
      scale_(process.variation * process.variation),
      constants_(scale_ > 1 ? 1 + 1 / scale_ : 1 / scale_),
      random_(seed) {
  CHECK(kind_ != ArrivalKind::kTrace) << "a trace has no random gaps";
}

double UnitGaps::First() {
  switch (kind_) {
    case ArrivalKind::kConstant:
      return 0.5;
    case ArrivalKind::kGamma:
      return FirstGammaGap();
    default:
      return Exponential();
  }
}

double UnitGaps::Next() {
  switch (kind_) {
    case ArrivalKind::kConstant:
      return 1;
    case ArrivalKind::kGamma:
      return GammaGap();
    default:
      return Exponential();
  }
}

double UnitGaps::FirstGammaGap() {
  // A moment falls into a gap the likelier the longer it is, at any point of
  // it alike; of gamma gaps the longer ones have one more in shape.
  const double gap = Gamma(GammaConstants(1 + 1 / scale_)) * scale_;
  return gap * UnitInterval(random_.Next());
}

double UnitGaps::GammaGap() {
  const double gap = Gamma(constants_) * scale_;
  if (scale_ <= 1) return gap;
  // A shape below 1 is that of 1 more, times a power of a uniform variable.
  return gap * std::exp(-Exponential() * scale_);
}

double UnitGaps::Exponential() {
  return -std::log(OpenUnitInterval(random_.Next()));
}

double UnitGaps::Normal() {
  if (has_spare_normal_) {
    has_spare_normal_ = false;
    return spare_normal_;
  }
  double x = 0;
  double y = 0;
  double square = 0;
  do {
    x = 2 * OpenUnitInterval(random_.Next()) - 1;
    y = 2 * OpenUnitInterval(random_.Next()) - 1;
    square = x * x + y * y;
  } while (square >= 1);
  const double factor = std::sqrt(-2 * std::log(square) / square);
  spare_normal_ = y * factor;
  has_spare_normal_ = true;
  return x * factor;
}

// Source: Marsaglia, Tsang: A Simple Method for Generating Gamma Variables
// (ACM TOMS 26, 2000).
double UnitGaps::Gamma(const GammaConstants& constants) {
  const auto [d, c] = constants;
  while (true) {
    const double x = Normal();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double uniform = OpenUnitInterval(random_.Next());
    const double x2 = x * x;
    if (uniform < 1 - 0.0331 * x2 * x2) return d * v;
    if (std::log(uniform) < x2 / 2 + d * (1 - v + std::log(v))) return d * v;
  }
}

}  // namespace qgemm
