// SPDX-License-Identifier: Apache-2.0
//
// Cuts a program's ops into launches of grouped GEMMs: GEMMs of the same
// operand side by side, a norm of it before them, columnwise ops in their
// epilogues. Pure.

#ifndef QGEMM_KERNELS_CUDA_PLAN_PROGRAM_FUSION_H_
#define QGEMM_KERNELS_CUDA_PLAN_PROGRAM_FUSION_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/programs/checked_program.h"

namespace qgemm::cuda {

inline constexpr int kMaxGroupedGemms = 4;
inline constexpr int kMaxEpilogueOps = 4;

// Facts of an op that decide what it shares a launch with.
struct FusionFacts {
  // GEMMs of the same kernel may be grouped; kNoKernel: a GEMM that is launched
  // by itself, or an op of another kind.
  int64_t kernel = kNoKernel;
  // True if its blocks have the threads that a norm takes.
  bool computes_norms = false;
  // GEMMs of the same number can be multiplied by the same blocks; kNoPairs:
  // with none.
  int64_t pair_class = kNoPairs;

  static constexpr int64_t kNoKernel = -1;
  static constexpr int64_t kNoPairs = -1;
};

// A columnwise op in an epilogue, on the result of what stands before it there.
struct EpiloguePart {
  int64_t op = 0;
  // Its other operand, for which it waits if an earlier GEMM of the group makes
  // it.
  ValueNumber other = kNoValue;
  int64_t awaited = kNothing;  // place of that GEMM in the group
  bool stores = true;          // its result is read by others

  static constexpr int64_t kNothing = -1;
};

struct GroupedGemmPart {
  int64_t op = 0;
  bool stores = true;  // the product is read by others than its epilogue
  bool is_awaited = false;
  // The place of an earlier GEMM of the group whose blocks may multiply this
  // one too: its epilogue takes nothing from the group but what that ends with.
  int64_t pair = EpiloguePart::kNothing;
  // Nothing but the paired GEMM reads what this one ends with.
  bool ends_for_pair = false;
  std::vector<EpiloguePart> epilogue = {};
};

// Ops [first_op, first_op + ops), in one launch but for a GEMM of no kernel,
// which may take several.
struct FusedStep {
  int64_t first_op = 0;
  int64_t ops = 0;
  // Without GEMMs the step is one of row-wise ops.
  std::vector<GroupedGemmPart> gemms;
  // False for a GEMM that is launched as by itself.
  bool is_grouped = false;
  int64_t norm = kNoNorm;  // op that makes the operand of the GEMMs

  static constexpr int64_t kNoNorm = -1;
};

// In order; `facts` are by op, and row-wise ops of a launch at most
// `max_row_ops`.
std::vector<FusedStep> FuseSteps(const CheckedProgram& program,
                                 absl::Span<const FusionFacts> facts,
                                 int64_t max_row_ops);

// An output that a GEMM of a group makes, or an op of its epilogue.
struct GroupedOutput {
  int64_t output = 0;  // its place among the outputs
  int64_t step = 0;
  int64_t gemm = 0;  // its place in the group

  friend bool operator==(const GroupedOutput& a, const GroupedOutput& b) {
    return a.output == b.output && a.step == b.step && a.gemm == b.gemm;
  }
};

// The input that the GEMMs of the first step multiply, if others come with it
// and they need none of those before their epilogues; else kNoValue.
ValueNumber FirstInput(const CheckedProgram& program,
                       absl::Span<const FusedStep> steps);

// Those that are made before the last step, in the order in which they are.
std::vector<GroupedOutput> EarlyOutputs(const CheckedProgram& program,
                                        absl::Span<const FusedStep> steps);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_PROGRAM_FUSION_H_
