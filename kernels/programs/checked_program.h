// SPDX-License-Identifier: Apache-2.0
//
// The check of a program against the weights that it names, and its result: a
// program that every backend can run, with the facts that an executor needs.

#ifndef QGEMM_KERNELS_PROGRAMS_CHECKED_PROGRAM_H_
#define QGEMM_KERNELS_PROGRAMS_CHECKED_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/matrix/types.h"
#include "kernels/matrix/weights.h"
#include "kernels/programs/program.h"

namespace qgemm {

// Largest program that is taken. Sizes of a row are those of one row of each
// value, in its own type.
struct ProgramLimits {
  int64_t max_ops = 64;
  int64_t max_width = int64_t{1} << 20;  // of any value
  int64_t max_constant_bytes = int64_t{1} << 20;
  // Results that are no outputs, as far as they are alive at once.
  int64_t max_scratch_row_bytes = int64_t{4} << 20;
  int64_t max_top_k = 1024;
};

// Resident weights as a program sees them.
struct ProgramWeights {
  std::string id;  // 64 hexadecimal digits
  WeightsShape shape;
};

// Weights by the names, or ids, that a program has for them.
using ProgramWeightsMap = std::map<std::string, ProgramWeights, std::less<>>;

// One value of a checked program.
struct ProgramValue {
  enum class Origin : uint8_t { kInput, kConstant, kResult };

  Origin origin = Origin::kInput;
  NumberType type = NumberType::kFloat32;
  int64_t width = 0;
  int64_t made_by = -1;    // the op; -1 for inputs and constants
  int64_t last_read = -1;  // the last op that reads it; -1: none does
  int64_t output = -1;     // its place among the outputs; -1: it is none

  int64_t row_bytes() const { return width * SizeOf(type); }
};

// Immutable and thread-safe. Made by CheckProgram alone.
class CheckedProgram {
 public:
  const Program& program() const { return program_; }
  const std::vector<ProgramOp>& ops() const { return program_.ops; }

  // Inputs, constants, results: by value number.
  const std::vector<ProgramValue>& values() const { return values_; }
  // The first result of an op; its others follow.
  ValueNumber result_of(int64_t op) const { return first_results_[op]; }

  // The ids of the weights, each once, in the order of their first use.
  const std::vector<std::string>& weights_ids() const { return weights_ids_; }
  // The place of a GEMM's weights among weights_ids().
  int64_t weights_of(int64_t op) const { return weights_of_ops_[op]; }
  // The signature of a GEMM.
  MatmulSignature signature_of(int64_t op) const;

  // Bytes of one row of all inputs, and of all outputs, together.
  int64_t input_row_bytes() const { return input_row_bytes_; }
  int64_t output_row_bytes() const { return output_row_bytes_; }
  int64_t constant_bytes() const { return constant_bytes_; }
  // Bytes of one row of the results that are no outputs, at the op where most
  // are alive: from the op that makes one to the last that reads it, both
  // included. An executor that gives memory back so needs no more.
  int64_t scratch_row_bytes() const { return scratch_row_bytes_; }

 private:
  friend class ProgramChecker;

  CheckedProgram() = default;

  Program program_;
  std::vector<ProgramValue> values_;
  std::vector<ValueNumber> first_results_;
  std::vector<std::string> weights_ids_;
  std::vector<int64_t> weights_of_ops_;  // -1 for ops without
  int64_t input_row_bytes_ = 0;
  int64_t output_row_bytes_ = 0;
  int64_t constant_bytes_ = 0;
  int64_t scratch_row_bytes_ = 0;
};

// OK for 1 to kProgramRevision. UNIMPLEMENTED for a later one, which says more
// than this build can know; INVALID_ARGUMENT for none.
absl::Status CheckRevision(int64_t revision);

// Checks all of a program. `weights` has what each name in it stands for.
// Errors name the op, its kind, the value, its width or type, and the limit:
// "op 7 (gemm): value 5 has width 14336; weights layer3/down has k = 4096".
//   INVALID_ARGUMENT  the program is wrong as it stands
//   NOT_FOUND         it names weights that `weights` lacks
//   UNIMPLEMENTED     a later revision; a mode that the weights do not offer
absl::StatusOr<CheckedProgram> CheckProgram(Program program,
                                            const ProgramWeightsMap& weights,
                                            const ProgramLimits& limits = {});

}  // namespace qgemm

#endif  // QGEMM_KERNELS_PROGRAMS_CHECKED_PROGRAM_H_
