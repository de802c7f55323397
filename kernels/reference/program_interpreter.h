// SPDX-License-Identifier: Apache-2.0
//
// Runs a program in fp64 with one rounding at the end of each op: what the
// words of docs/programs.md mean, and what backends are compared with. Slow;
// never a product path. Functions without queue, thread and state.

#ifndef QGEMM_KERNELS_REFERENCE_PROGRAM_INTERPRETER_H_
#define QGEMM_KERNELS_REFERENCE_PROGRAM_INTERPRETER_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/programs/checked_program.h"

namespace qgemm::reference {

// All that a run of a program made.
struct ProgramRun {
  // By value number: [m, width] elements of the value's type, row-major,
  // little-endian, as operands are; a constant's one row.
  std::vector<std::vector<uint8_t>> values;
  // By op: the elements that were finite and became infinite when they were
  // rounded, to the result's type or, in a GEMM, on their way in.
  std::vector<int64_t> overflows;
  // By op: the time that it took here.
  std::vector<absl::Duration> op_times;
};

// Runs the program on `m` rows, 1 or more.
//   weights  of each of program.weights_ids(), in that order; the shapes are
//            those that the program was checked with
//   inputs   the inputs one after another, each [m, width] of its type: m times
//            program.input_row_bytes()
// A row's bits do not depend on the other rows.
ProgramRun InterpretProgram(const CheckedProgram& program,
                            absl::Span<const CanonicalWeights* const> weights,
                            absl::Span<const uint8_t> inputs, int64_t m);

// The outputs of a run one after another, as an answer has them: m times
// program.output_row_bytes().
std::vector<uint8_t> OutputsOf(const CheckedProgram& program,
                               const ProgramRun& run);

}  // namespace qgemm::reference

#endif  // QGEMM_KERNELS_REFERENCE_PROGRAM_INTERPRETER_H_
