// SPDX-License-Identifier: Apache-2.0
//
// A program as the CPU backend runs it: the layout of its values. Execution is
// in program_executor.h.

#ifndef QGEMM_KERNELS_CPU_CPU_PROGRAM_H_
#define QGEMM_KERNELS_CPU_CPU_PROGRAM_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cpu/cpu_weights.h"
#include "kernels/programs/program_runner.h"
#include "kernels/programs/value_layout.h"

namespace qgemm::cpu {

class CpuProgram final : public CompiledProgram {
 public:
  // UNIMPLEMENTED for a k of TOP_K beyond kMaxTopK, which no program has that
  // was checked with the default limits. The weights are CpuWeights.
  static absl::StatusOr<std::shared_ptr<const CpuProgram>> Create(
      std::shared_ptr<const CheckedProgram> program, WeightsOfProgram weights);

  int64_t resident_bytes() const override { return 0; }

  const ValueLayout& layout() const { return layout_; }
  // Bytes of weights, inputs, outputs and scratch that a run of `rows` rows
  // reads or writes.
  int64_t TouchedBytes(int64_t rows) const {
    return weights_bytes_ + rows * row_bytes_;
  }
  const CpuWeights& weights_of(int64_t op) const {
    return static_cast<const CpuWeights&>(*weights()[program().weights_of(op)]);
  }

 private:
  CpuProgram(std::shared_ptr<const CheckedProgram> program,
             WeightsOfProgram weights);

  const ValueLayout layout_;
  int64_t weights_bytes_ = 0;
  int64_t row_bytes_ = 0;
};

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_CPU_PROGRAM_H_
