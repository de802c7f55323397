// SPDX-License-Identifier: Apache-2.0
//
// Compiled programs that cannot run and count their living instances; and the
// small checked programs that they are made of.

#ifndef QGEMM_TESTS_SERVER_PROGRAMS_COUNTED_PROGRAM_H_
#define QGEMM_TESTS_SERVER_PROGRAMS_COUNTED_PROGRAM_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "kernels/programs/checked_program.h"
#include "kernels/programs/program_runner.h"
#include "tests/support/program_layers.h"

namespace qgemm {

class CountedProgram final : public CompiledProgram {
 public:
  // `live` must outlive the program.
  CountedProgram(std::shared_ptr<const CheckedProgram> program,
                 WeightsOfProgram weights, int64_t bytes,
                 std::atomic<int64_t>* live)
      : CompiledProgram(std::move(program), std::move(weights)),
        bytes_(bytes),
        live_(live) {
    ++*live_;
  }
  ~CountedProgram() override { --*live_; }

  int64_t resident_bytes() const override { return bytes_; }

 private:
  const int64_t bytes_;
  std::atomic<int64_t>* const live_;
};

// SILU of an input.
inline Program SiluProgram(int64_t width) {
  ProgramDraft draft(NumberType::kFloat32);
  const ValueNumber x = draft.Input(NumberType::kFloat32, width);
  return draft.Finish({draft.Act(x, Activation::kSilu)});
}

// One product with weights of that name, [n, k] being [width, width].
inline Program GemmProgram(const std::string& weights, int64_t width) {
  ProgramDraft draft(NumberType::kFloat32);
  const ValueNumber x = draft.Input(NumberType::kFloat32, width);
  return draft.Finish({draft.Gemm(x, weights)});
}

inline std::shared_ptr<const CheckedProgram> Checked(
    Program program, const ProgramWeightsMap& weights = {}) {
  absl::StatusOr<CheckedProgram> checked =
      CheckProgram(std::move(program), weights);
  CHECK_OK(checked.status());
  return std::make_shared<const CheckedProgram>(*std::move(checked));
}

}  // namespace qgemm

#endif  // QGEMM_TESTS_SERVER_PROGRAMS_COUNTED_PROGRAM_H_
