// SPDX-License-Identifier: Apache-2.0
//
// The rule of each kind of op: which widths, types and attributes it takes, and
// how wide its result is.

#ifndef QGEMM_KERNELS_PROGRAMS_OP_RULES_H_
#define QGEMM_KERNELS_PROGRAMS_OP_RULES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/programs/checked_program.h"
#include "kernels/programs/program.h"

namespace qgemm {

// An op and what stands before it. Borrows all.
struct OpContext {
  const ProgramOp& op;
  const std::vector<ProgramValue>& values;
  const ProgramWeights* weights;  // a GEMM's; null for other kinds
  const ProgramLimits& limits;
};

// Checks that the op's kind and enumerators are known, that its required fields
// are set and those that the kind lacks are not. The operands may be anything.
// Errors: INVALID_ARGUMENT without the op's place in the program.
absl::Status CheckFields(const ProgramOp& op);

// Checks an op that passed CheckFields: that its operands stand before it and
// are what the kind takes.
absl::Status CheckOperands(const OpContext& context);

// The width of each result, by the kind's rule, which the operands and
// attributes are checked for. CheckOperands has passed.
// Errors: INVALID_ARGUMENT; UNIMPLEMENTED for a mode that the weights lack.
absl::StatusOr<int64_t> ResultWidth(const OpContext& context);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_PROGRAMS_OP_RULES_H_
