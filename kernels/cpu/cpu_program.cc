// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/cpu_program.h"

#include <utility>

#include "base/status_macros.h"
#include "kernels/cpu/row_ops.h"

namespace qgemm::cpu {

absl::StatusOr<std::shared_ptr<const CpuProgram>> CpuProgram::Create(
    std::shared_ptr<const CheckedProgram> program, WeightsOfProgram weights) {
  RETURN_IF_ERROR(CheckTopK("cpu", *program, kMaxTopK));
  return std::shared_ptr<const CpuProgram>(
      new CpuProgram(std::move(program), std::move(weights)));
}

CpuProgram::CpuProgram(std::shared_ptr<const CheckedProgram> program,
                       WeightsOfProgram weights)
    : CompiledProgram(std::move(program), std::move(weights)),
      layout_(LayOutValues(this->program())) {
  for (const auto& each : this->weights()) {
    weights_bytes_ += each->resident_bytes();
  }
  row_bytes_ = this->program().input_row_bytes() +
               this->program().output_row_bytes() + layout_.scratch_bytes;
}

}  // namespace qgemm::cpu
