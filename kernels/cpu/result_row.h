// SPDX-License-Identifier: Apache-2.0
//
// The end of a row of results: scaling, bias, and the one rounding to the
// output type.

#ifndef QGEMM_KERNELS_CPU_RESULT_ROW_H_
#define QGEMM_KERNELS_CPU_RESULT_ROW_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cpu/microkernel.h"
#include "kernels/matrix/types.h"

namespace qgemm {

// Writes sums[i] * factor + bias[i] to c[i] of `type`; at most kTileRows.
// `bias` is empty or as long as `sums`.
struct ResultRow {
  FloatType type;
  HalfConversions half_conversions;
  double factor;
  absl::Span<const float> bias;
};
void StoreResults(const ResultRow& row, absl::Span<const float> sums,
                  uint8_t* c);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_CPU_RESULT_ROW_H_
