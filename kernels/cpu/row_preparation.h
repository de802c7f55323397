// SPDX-License-Identifier: Apache-2.0
//
// Turns one row of activations into what microkernels read: fp32 in the
// layer's column order, padded with zeros, or Q8_1 made of that. A pure
// function of the row, so that neighbours in a batch change nothing.

#ifndef QGEMM_KERNELS_CPU_ROW_PREPARATION_H_
#define QGEMM_KERNELS_CPU_ROW_PREPARATION_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cpu/microkernel.h"
#include "kernels/matrix/types.h"

namespace qgemm {

struct RowSource {
  MatmulSignature signature;
  HalfConversions half_conversions;
  int64_t k = 0;
  absl::Span<const int32_t> permutation;  // [k], or empty
};

// What mode A16 takes activations of the signature for: fp16 or bf16.
FloatType HalfTypeOf(const MatmulSignature& signature);

// No infinity and no NaN.
bool AllFinite(absl::Span<const float> row);

// Writes `row` ([k] of the signature's a_type) to `target` ([padded_k]) as
// the mode reads it. `scratch` ([k]) is used if there is a permutation.
// Returns what sums over the row are to be multiplied by: 1; 2^64 for a row so
// large that sums might overflow before they are scaled, which is divided by
// that; 2^-64 for a row so small that products might be subnormal, which is
// multiplied by 2^64.
double PrepareRow(const RowSource& source, const uint8_t* row, int64_t padded_k,
                  float* scratch, float* target);

// A row in Q8_1: d = amax / 127 and q = round(x / d), half away from zero,
// for each block of 32; all of a block is NaN that has a value not finite.
struct QuantizedRow {
  int8_t* q8;       // [32 * blocks], in the order of microkernel.h
  float* d8;        // [blocks]
  int32_t* q8_sum;  // [blocks]
};
void QuantizeRow(const float* row, int64_t blocks, const QuantizedRow& target);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_CPU_ROW_PREPARATION_H_
