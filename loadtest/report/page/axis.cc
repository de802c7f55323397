// SPDX-License-Identifier: Apache-2.0
//
// Round numbers: 1, 2 and 5 times powers of ten.

#include "loadtest/report/page/axis.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace qgemm {
namespace {

// Larger values would overflow when a range is widened.
constexpr double kLargestValue = 1e300;
constexpr double kSmallestPositive = 1e-300;
// Ratio of values above which a linear axis hides the small ones.
constexpr double kLogRatio = 20;
// More decades than these get no minor ticks: they would run together.
constexpr double kMaxDecadesWithMinor = 7;
// With room for so many labels a decade, 2 and 5 are labelled besides 1: from
// 5 to 10 it is 0.3 of a decade, so two thirds of a label's pitch are left.
constexpr double kLabelsForDigits = 2.2;

double PowerOfTen(double exponent) { return std::pow(10.0, exponent); }

// The smallest of 1, 2, 5, 10 times a power of ten that is at least `value`,
// which is above 0.
double RoundUp(double value) {
  const double power = PowerOfTen(std::floor(std::log10(value)));
  for (const double digit : {1.0, 2.0, 5.0}) {
    if (digit * power >= value * (1 - 1e-12)) return digit * power;
  }
  return 10 * power;
}

double RoundDown(double value) {
  const double power = PowerOfTen(std::floor(std::log10(value)));
  for (const double digit : {5.0, 2.0, 1.0}) {
    if (digit * power <= value * (1 + 1e-12)) return digit * power;
  }
  return power;
}

struct Ends {
  double lowest;
  double highest;
};

// Room around values that are all equal.
Ends Widened(double value) {
  if (value == 0) return {0, 1};
  return value > 0 ? Ends{0, 2 * value} : Ends{2 * value, 0};
}

bool IsUsable(double value) {
  return std::isfinite(value) && std::fabs(value) <= kLargestValue;
}

double UsableOr(std::optional<double> value, double otherwise) {
  return value && IsUsable(*value) ? *value : otherwise;
}

Ends LinearEnds(const AxisSpec& spec, const ValueRange& values) {
  Ends ends =
      values.empty() ? Ends{0, 1} : Ends{values.lowest(), values.highest()};
  ends.lowest = UsableOr(spec.lowest, ends.lowest);
  ends.highest = UsableOr(spec.highest, ends.highest);
  if (ends.highest > ends.lowest) return ends;
  const Ends wide = Widened(ends.lowest);
  if (wide.lowest <= ends.lowest && wide.highest > ends.lowest &&
      spec.lowest.has_value()) {
    return {ends.lowest, wide.highest};
  }
  return wide;
}

void AddLinearTicks(const AxisSpec& spec, int label_limit, Axis* axis) {
  const double span = axis->highest - axis->lowest;
  const double step = RoundUp(span / label_limit);
  if (!spec.lowest) axis->lowest = std::floor(axis->lowest / step) * step;
  if (!spec.highest) axis->highest = std::ceil(axis->highest / step) * step;
  const double first = std::ceil(axis->lowest / step - 1e-9);
  const double last = std::floor(axis->highest / step + 1e-9);
  const double largest = std::max(std::fabs(axis->lowest), axis->highest);
  // Counted, as adding 1 to a huge double changes nothing.
  for (int i = 0; i <= 2 * label_limit && first + i <= last; ++i) {
    // Adding 0 turns -0 into 0.
    const double value = (first + i) * step + 0.0;
    axis->ticks.push_back({value, TickText(value, spec.quantity, largest)});
  }
}

Ends LogEnds(const AxisSpec& spec, const ValueRange& values) {
  Ends ends = {1, 10};
  if (values.lowest_positive() > 0) {
    ends = {RoundDown(values.lowest_positive()), RoundUp(values.highest())};
  }
  const double lowest = UsableOr(spec.lowest, ends.lowest);
  const double highest = UsableOr(spec.highest, ends.highest);
  if (lowest > 0) ends.lowest = lowest;
  if (highest > 0) ends.highest = highest;
  if (ends.highest <= ends.lowest) ends.highest = 10 * ends.lowest;
  return ends;
}

// Powers of ten always; 2 and 5 where labels are few enough; every other power
// or fewer where they are too many.
bool IsLabelled(int digit, double exponent, double labels_a_decade) {
  if (digit == 1) {
    const double every = std::ceil(1 / std::max(labels_a_decade, 1e-3));
    return std::fmod(exponent, every) == 0;
  }
  if (labels_a_decade < kLabelsForDigits) return false;
  return digit == 2 || digit == 5;
}

void AddLogTicks(const AxisSpec& spec, int label_limit, Axis* axis) {
  const double decades = std::log10(axis->highest) - std::log10(axis->lowest);
  const double labels_a_decade = label_limit / decades;
  const double first = std::floor(std::log10(axis->lowest) - 1e-9);
  const double last = std::ceil(std::log10(axis->highest) + 1e-9);
  for (double exponent = first; exponent <= last; ++exponent) {
    for (int digit = 1; digit <= 9; ++digit) {
      const double value = digit * PowerOfTen(exponent);
      if (value < axis->lowest * (1 - 1e-9)) continue;
      if (value > axis->highest * (1 + 1e-9)) continue;
      if (digit > 1 && decades > kMaxDecadesWithMinor) continue;
      const bool labelled = IsLabelled(digit, exponent, labels_a_decade);
      axis->ticks.push_back(
          {value, labelled ? TickText(value, spec.quantity, value) : ""});
    }
  }
}

void AddGivenTicks(const AxisSpec& spec, Axis* axis) {
  for (const Tick& tick : spec.ticks) {
    if (tick.value >= axis->lowest && tick.value <= axis->highest) {
      axis->ticks.push_back(tick);
    }
  }
}

}  // namespace

void ValueRange::Include(double value) {
  if (!IsUsable(value)) return;
  lowest_ = std::min(lowest_.value_or(value), value);
  highest_ = std::max(highest_.value_or(value), value);
  if (value < kSmallestPositive) return;
  lowest_positive_ =
      lowest_positive_ == 0 ? value : std::min(lowest_positive_, value);
}

Scale ScaleFor(const ValueRange& values) {
  const double lowest = values.lowest_positive();
  return lowest > 0 && values.highest() > kLogRatio * lowest ? Scale::kLog
                                                             : Scale::kLinear;
}

double Axis::Position(double value) const {
  if (!(value > lowest)) return 0;
  if (value >= highest) return 1;
  if (scale == Scale::kLinear) return (value - lowest) / (highest - lowest);
  const double start = std::log(lowest);
  return (std::log(value) - start) / (std::log(highest) - start);
}

Axis MakeAxis(const AxisSpec& spec, const ValueRange& values, int label_limit) {
  const bool is_log = spec.scale == Scale::kLog;
  const Ends ends = is_log ? LogEnds(spec, values) : LinearEnds(spec, values);
  Axis axis = {spec.title, spec.scale, ends.lowest, ends.highest, {}};
  const int labels = std::max(2, label_limit);
  if (!spec.ticks.empty()) {
    AddGivenTicks(spec, &axis);
  } else if (is_log) {
    AddLogTicks(spec, labels, &axis);
  } else {
    AddLinearTicks(spec, labels, &axis);
  }
  return axis;
}

}  // namespace qgemm
