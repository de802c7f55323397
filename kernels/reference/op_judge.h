// SPDX-License-Identifier: Apache-2.0
//
// Judges the result of one op of a program, as a backend made it, against fp64
// on the operands that the backend had, by the rules of
// docs/programs.md#rounding.

#ifndef QGEMM_KERNELS_REFERENCE_OP_JUDGE_H_
#define QGEMM_KERNELS_REFERENCE_OP_JUDGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/fp64_oracle.h"
#include "kernels/programs/checked_program.h"

namespace qgemm::reference {

// Bytes of each value by its number: [m, width], or a constant's one row.
using ProgramValues = std::vector<std::vector<uint8_t>>;

// The values that a program's inputs and constants are for `m` rows. `inputs`
// are one behind the other; results stay empty.
ProgramValues ValuesBeforeOps(const CheckedProgram& program,
                              absl::Span<const uint8_t> inputs, int64_t m);

// Most that an activation's fp32 result may lie from the fp64 value `expected`:
// 4 ulp, or 2^-120 where that is more.
double ActivationBound(double expected);

// Compares values[result_of(op)], of `m` rows, with what is right for the op's
// operands in `values`. `weights` are by the program's weights_ids(); GEMM
// alone reads them. An op with one right answer has no tolerance: the ratio of
// an element is 0 or infinite. TOP_K's elements are values and ids by turns.
OracleReport CompareOp(const CheckedProgram& program,
                       absl::Span<const CanonicalWeights* const> weights,
                       const ProgramValues& values, int64_t m, int64_t op);

// OK if that passes, else DATA_LOSS that names op and element.
absl::Status JudgeOp(const CheckedProgram& program,
                     absl::Span<const CanonicalWeights* const> weights,
                     const ProgramValues& values, int64_t m, int64_t op);

}  // namespace qgemm::reference

#endif  // QGEMM_KERNELS_REFERENCE_OP_JUDGE_H_
