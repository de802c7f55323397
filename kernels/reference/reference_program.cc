// SPDX-License-Identifier: Apache-2.0

#include "kernels/reference/reference_program.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/matrix/canonical_weights.h"
#include "kernels/reference/program_interpreter.h"
#include "kernels/reference/reference_matmul.h"

namespace qgemm::reference {
namespace {

class ReferenceProgram final : public CompiledProgram {
 public:
  ReferenceProgram(std::shared_ptr<const CheckedProgram> program,
                   WeightsOfProgram weights)
      : CompiledProgram(std::move(program), std::move(weights)) {}

  int64_t resident_bytes() const override { return 0; }

  std::vector<const CanonicalWeights*> canonical() const {
    std::vector<const CanonicalWeights*> canonical;
    for (const std::shared_ptr<const ResidentWeights>& layer : weights()) {
      canonical.push_back(
          &static_cast<const ReferenceWeights&>(*layer).canonical());
    }
    return canonical;
  }
};

// The segment's rows of each input, one input behind the other.
std::vector<uint8_t> InputsOf(const CheckedProgram& program,
                              const ProgramSegment& segment) {
  std::vector<uint8_t> rows;
  const uint8_t* input = segment.inputs;
  for (size_t i = 0; i < program.program().inputs.size(); ++i) {
    const int64_t row_bytes = program.values()[i].row_bytes();
    const uint8_t* const begin = input + segment.first * row_bytes;
    rows.insert(rows.end(), begin, begin + segment.rows * row_bytes);
    input += segment.m * row_bytes;
  }
  return rows;
}

void StoreOutputs(const CheckedProgram& program, const ProgramRun& run,
                  const ProgramSegment& segment) {
  uint8_t* output = segment.outputs;
  for (const ValueNumber number : program.program().outputs) {
    const int64_t row_bytes = program.values()[number].row_bytes();
    const std::vector<uint8_t>& rows = run.values[number];
    std::copy(rows.begin(), rows.end(), output + segment.first * row_bytes);
    output += segment.m * row_bytes;
  }
}

}  // namespace

std::shared_ptr<const CompiledProgram> NewReferenceProgram(
    std::shared_ptr<const CheckedProgram> program, WeightsOfProgram weights) {
  return std::make_shared<ReferenceProgram>(std::move(program),
                                            std::move(weights));
}

std::vector<absl::Duration> ReferenceRun(const ProgramBatch& batch) {
  const auto& compiled = static_cast<const ReferenceProgram&>(*batch.program);
  const std::vector<const CanonicalWeights*> weights = compiled.canonical();
  std::vector<absl::Duration> op_times;
  if (batch.time_ops) op_times.resize(compiled.program().ops().size());
  for (const ProgramSegment& segment : batch.segments) {
    const ProgramRun run =
        InterpretProgram(compiled.program(), weights,
                         InputsOf(compiled.program(), segment), segment.rows);
    StoreOutputs(compiled.program(), run, segment);
    for (size_t op = 0; op < op_times.size(); ++op) {
      op_times[op] += run.op_times[op];
    }
  }
  return op_times;
}

}  // namespace qgemm::reference
