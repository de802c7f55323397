// SPDX-License-Identifier: Apache-2.0
//
// Conversions of single rows: activations into the form that microkernels read
// (fp32 in the layer's column order, padded with zeros, or Q8_1 of that), and
// sums into results of the output type. Pure functions of the row, so that
// neighbours in a batch change nothing.

#ifndef QGEMM_KERNELS_CPU_ROW_CONVERSION_H_
#define QGEMM_KERNELS_CPU_ROW_CONVERSION_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/matrix/types.h"

namespace qgemm::cpu {

struct RowSource {
  MatmulSignature signature;
  HalfConversions half_conversions;
  int64_t k = 0;
  absl::Span<const int32_t> permutation;  // [k], or empty
};

// The type that mode A16 rounds activations to: fp16 or bf16.
FloatType HalfTypeOf(const MatmulSignature& signature);

// True if the row has no infinity and no NaN.
bool AllFinite(absl::Span<const float> row);

// Writes `row` ([k] of the signature's a_type) to `target` ([padded_k]) as
// the mode reads it. `scratch` ([k]) is used if there is a permutation.
// Returns the factor for sums over the row: 1; 2^64 if the row is so large that
// sums might overflow before they are scaled, and was divided by that; 2^-64 if
// it is so small that products might be subnormal, and was multiplied by 2^64.
double PrepareRow(const RowSource& source, const uint8_t* row, int64_t padded_k,
                  float* scratch, float* target);

// A row in Q8_1: d = amax / 127 and q = round(x / d), half away from zero,
// for each block of 32; d is NaN for a block with a value that is not finite.
struct Q8Row {
  int8_t* q8;       // [32 * blocks], in the order of microkernel.h
  float* d8;        // [blocks]
  int32_t* q8_sum;  // [blocks]
};
void QuantizeRow(const float* row, int64_t blocks, const Q8Row& target);

// The end of a row of results: scaling, bias, and the one rounding to the
// output type. StoreResults writes sums[i] * factor + bias[i] to c[i] of
// `type`, at most kTileRows of them; `bias` is empty or as long as `sums`.
struct ResultRow {
  FloatType type;
  HalfConversions half_conversions;
  double factor;
  absl::Span<const float> bias;
};
void StoreResults(const ResultRow& row, absl::Span<const float> sums,
                  uint8_t* c);

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_ROW_CONVERSION_H_
