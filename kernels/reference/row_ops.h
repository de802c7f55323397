// SPDX-License-Identifier: Apache-2.0
//
// The meaning of a program's row-wise ops (docs/programs.md#operations), in
// fp64 on one row, before the result is rounded to its type. Infinities and NaN
// go through each formula as IEEE arithmetic has them, but where a line below
// says otherwise. All spans are borrowed for the call; results do not overlap
// operands.

#ifndef QGEMM_KERNELS_REFERENCE_ROW_OPS_H_
#define QGEMM_KERNELS_REFERENCE_ROW_OPS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/programs/program.h"

namespace qgemm::reference {

// One row of a value, exact.
using Row = std::vector<double>;

// activation(x). SILU and both GELU of -infinity are NaN, as 0 * infinity is;
// RELU of NaN is NaN and of -0 is -0.
double Activate(Activation activation, double x);

// `low` below it, `high` above it, else x: so NaN stays NaN.
double Clamp(double x, double low, double high);

// x / sqrt(mean(x^2) + eps) * weight, with a mean for each run of `group`
// columns. `weight` is empty, or one run or all columns wide.
Row RmsNorm(absl::Span<const double> x, absl::Span<const double> weight,
            double eps, int64_t group);

// (x - mean) / sqrt(variance + eps) * weight + bias with the biased variance,
// the mean of (x - mean)^2. `weight` and `bias` are empty or as wide as x.
Row LayerNorm(absl::Span<const double> x, absl::Span<const double> weight,
              absl::Span<const double> bias, double eps);

// The columns of the `count` largest elements, the largest first. Of equal
// elements the one in the lower column comes first; NaN is larger than all.
std::vector<int32_t> TopColumns(absl::Span<const double> x, int64_t count);

}  // namespace qgemm::reference

#endif  // QGEMM_KERNELS_REFERENCE_ROW_OPS_H_
