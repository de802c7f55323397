// SPDX-License-Identifier: Apache-2.0
//
// A program as the CPU backend runs it: the layout of its values. Execution is
// in program_executor.h.

#ifndef QGEMM_KERNELS_CPU_CPU_PROGRAM_H_
#define QGEMM_KERNELS_CPU_CPU_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cpu/cpu_weights.h"
#include "kernels/programs/program_runner.h"

namespace qgemm::cpu {

// The memory that holds a value, and where in it the value starts.
struct ValuePlace {
  enum class Memory : uint8_t {
    kInputs,    // of the request
    kOutputs,   // of the request
    kScratch,   // of the row
    kConstant,  // one row for all
  };

  Memory memory = Memory::kInputs;
  // kInputs and kOutputs: bytes of a row of all values before it. kScratch:
  // bytes from the start of the row's scratch. kConstant: the constant's place
  // among the program's.
  int64_t offset = 0;
};

// Places by value number.
struct ValueLayout {
  std::vector<ValuePlace> places;
  // Scratch of a row: room for all that is alive at once, values aligned to 64
  // bytes.
  int64_t scratch_bytes = 0;
};

// Gives results that are no outputs memory by their lifetimes: two share some
// only if no op reads or makes both. Pure.
ValueLayout LayOutValues(const CheckedProgram& program);

class CpuProgram final : public CompiledProgram {
 public:
  // UNIMPLEMENTED for a k of TOP_K beyond kMaxTopK, which no program has that
  // was checked with the default limits. The weights are CpuWeights.
  static absl::StatusOr<std::shared_ptr<const CpuProgram>> Create(
      std::shared_ptr<const CheckedProgram> program, WeightsOfProgram weights);

  int64_t resident_bytes() const override { return 0; }

  const ValueLayout& layout() const { return layout_; }
  const CpuWeights& weights_of(int64_t op) const {
    return static_cast<const CpuWeights&>(*weights()[program().weights_of(op)]);
  }

 private:
  CpuProgram(std::shared_ptr<const CheckedProgram> program,
             WeightsOfProgram weights);

  const ValueLayout layout_;
};

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_CPU_PROGRAM_H_
