// SPDX-License-Identifier: Apache-2.0
//
// Makes a layer out of another by moving its rows: other bytes, and another
// identity, for the price of a copy.

#ifndef QGEMM_LOADTEST_WORKLOAD_ROTATED_ROWS_H_
#define QGEMM_LOADTEST_WORKLOAD_ROTATED_ROWS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/formats/weights_encoder.h"

namespace qgemm {

// Row r of the result, its scales and bias included, is row
// (r + row_shift) mod n of `base`; `row_shift` is 0 to n - 1.
// Errors: INVALID_ARGUMENT (a layout whose rows are not each of whole bytes in
// one place: tiled kbit, GPTQ, AWQ).
absl::StatusOr<EncodedWeights> RotateRows(const EncodedWeights& base,
                                          int64_t row_shift);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_WORKLOAD_ROTATED_ROWS_H_
