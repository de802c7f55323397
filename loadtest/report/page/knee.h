// SPDX-License-Identifier: Apache-2.0
//
// Where a curve of latency over rate turns upwards. Decisions only.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_KNEE_H_
#define QGEMM_LOADTEST_REPORT_PAGE_KNEE_H_

#include <cstddef>
#include <optional>

#include "absl/types/span.h"

namespace qgemm {

struct RatePoint {
  double rate = 0;
  double latency_ns = 0;
};

// The point farthest below the straight line from the slowest to the fastest
// point, rate and logarithm of latency scaled to 0..1: there the curve bends
// from flat to steep. Nothing if fewer than three points have a rate and a
// latency above 0, or if none is a twentieth below the line. The order of the
// points does not matter.
std::optional<size_t> FindKnee(absl::Span<const RatePoint> points);

// The point of the highest rate that is not above `rate`, but for rounding.
std::optional<size_t> FindRate(absl::Span<const RatePoint> points, double rate);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_KNEE_H_
