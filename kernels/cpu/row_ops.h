// SPDX-License-Identifier: Apache-2.0
//
// The row-wise ops of programs but for GEMM (docs/programs.md#operations), on
// one row. Elements are read to fp32 and rounded to the result's type once;
// between, norms and activations compute in fp64. Sums are taken in an order
// that the width alone decides, so that neighbours and threads change nothing.

#ifndef QGEMM_KERNELS_CPU_ROW_OPS_H_
#define QGEMM_KERNELS_CPU_ROW_OPS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/matrix/types.h"
#include "kernels/programs/program.h"

namespace qgemm::cpu {

// The largest k of TOP_K that ComputeRow takes.
inline constexpr int64_t kMaxTopK = 1024;

// Columns are cut at multiples of this between calls of ComputeColumns.
inline constexpr int64_t kColumnBlock = 256;

// A row of an operand, borrowed. 16-bit elements stand on an even address, fp32
// at any.
struct SourceRow {
  const uint8_t* elements = nullptr;  // null where the op has none
  FloatType type = FloatType::kFloat32;
  int64_t width = 0;
};

// An op on one row; results overlap no operand. Places as for SourceRow.
struct RowOpArgs {
  const ProgramOp& op;
  HalfConversions half_conversions;
  SourceRow x;
  SourceRow y;
  SourceRow norm_weight;
  SourceRow norm_bias;
  uint8_t* result = nullptr;
  FloatType type = FloatType::kFloat32;  // of the result
  int64_t width = 0;                     // of the result
  uint8_t* ids = nullptr;                // TOP_K: [k] int32
};

// Computes columns [begin, end) of the result of an op that IsColumnwise;
// `begin` is a multiple of kColumnBlock, and so is `end`, or it is the width.
// The bits of a column do not depend on the cut.
void ComputeColumns(const RowOpArgs& args, int64_t begin, int64_t end);

// Computes the whole row of any op but GEMM.
void ComputeRow(const RowOpArgs& args);

// The part of ACT between loading and rounding, in activations.cc: replaces
// each element by its activation, within 1 ulp of fp32 or 2^-120. RELU is
// exact. Infinities and NaN come out as the formulas have them.
void Activate(Activation activation, absl::Span<float> elements);

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_ROW_OPS_H_
