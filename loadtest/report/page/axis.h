// SPDX-License-Identifier: Apache-2.0
//
// From values to places on an axis: its range, its scale and the round values
// that are labelled. No pixels, no markup.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_AXIS_H_
#define QGEMM_LOADTEST_REPORT_PAGE_AXIS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loadtest/report/page/quantity.h"

namespace qgemm {

enum class Scale : uint8_t { kLinear, kLog };

// The values seen; those that are not finite, or above 1e300, do not count.
class ValueRange {
 public:
  void Include(double value);

  bool empty() const { return !lowest_.has_value(); }
  double lowest() const { return lowest_.value_or(0); }
  double highest() const { return highest_.value_or(0); }
  // The only ones that a log axis can show; 0 if there are none.
  double lowest_positive() const { return lowest_positive_; }

 private:
  std::optional<double> lowest_;
  std::optional<double> highest_;
  double lowest_positive_ = 0;
};

// Log where values differ so much that a linear axis would hide the small.
Scale ScaleFor(const ValueRange& values);

struct Tick {
  double value = 0;
  std::string label;  // empty: a minor tick
};

struct AxisSpec {
  std::string title;
  Scale scale = Scale::kLinear;
  Quantity quantity = Quantity::kCount;
  // The ends, exactly; without them, or where they are not finite, round values
  // that enclose the data.
  std::optional<double> lowest;
  std::optional<double> highest;
  // Instead of round values.
  std::vector<Tick> ticks;
};

struct Axis {
  std::string title;
  Scale scale = Scale::kLinear;
  double lowest = 0;
  double highest = 1;       // above `lowest`, which a log axis has above 0
  std::vector<Tick> ticks;  // ascending, within the ends

  // 0 at the lowest value, 1 at the highest; beyond them the nearer end.
  double Position(double value) const;
};

// At most about `label_limit` labels (2 or more).
Axis MakeAxis(const AxisSpec& spec, const ValueRange& values, int label_limit);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_AXIS_H_
