// SPDX-License-Identifier: Apache-2.0
//
// Programs of every kind of op in any order, by the decisions of a fuzzer or of
// a seed's bytes.

#ifndef QGEMM_TESTS_SUPPORT_RANDOM_PROGRAM_H_
#define QGEMM_TESTS_SUPPORT_RANDOM_PROGRAM_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/programs/checked_program.h"
#include "kernels/programs/program.h"
#include "tests/support/fuzz_input.h"

namespace qgemm {

// Parts that a program is made of.
struct ProgramRecipe {
  // Widths of inputs. A width of `weights` lets GEMM follow.
  absl::Span<const int64_t> widths;
  // Weights that GEMM may name; only the shapes matter. Must outlive the call.
  const ProgramWeightsMap* weights = nullptr;
  int64_t max_ops = 12;  // of those that are drawn; up to 56
};

// A program that is legal unless its widths make its scratch too large. Reads a
// few bytes of the input for each op.
Program RandomProgram(const ProgramRecipe& recipe, FuzzInput* input);

}  // namespace qgemm

#endif  // QGEMM_TESTS_SUPPORT_RANDOM_PROGRAM_H_
