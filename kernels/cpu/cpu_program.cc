// SPDX-License-Identifier: Apache-2.0
//
// Scratch is given out first-fit, in the order in which values are made.

#include "kernels/cpu/cpu_program.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/programs/op_fields.h"

namespace qgemm::cpu {
namespace {

constexpr int64_t kAlignment = 64;

// Bytes [begin, end) of a row's scratch, busy from the op that makes a value to
// the last that reads it.
struct Lease {
  int64_t begin;
  int64_t end;
  int64_t first_op;
  int64_t last_op;
};

// The lowest bytes that no lease has while the value is alive. `leases` are in
// the order of their begins.
Lease FirstFit(const ProgramValue& value, const std::vector<Lease>& leases) {
  const int64_t bytes = RoundUp(value.row_bytes(), kAlignment);
  const int64_t last_op = std::max(value.made_by, value.last_read);
  int64_t begin = 0;
  for (const Lease& lease : leases) {
    if (lease.last_op < value.made_by || lease.first_op > last_op) continue;
    if (begin + bytes <= lease.begin) break;
    begin = std::max(begin, lease.end);
  }
  return {begin, begin + bytes, value.made_by, last_op};
}

class ScratchPlan {
 public:
  // The first byte of the value.
  int64_t Add(const ProgramValue& value) {
    const Lease lease = FirstFit(value, leases_);
    const auto behind = std::upper_bound(
        leases_.begin(), leases_.end(), lease,
        [](const Lease& a, const Lease& b) { return a.begin < b.begin; });
    leases_.insert(behind, lease);
    bytes_ = std::max(bytes_, lease.end);
    return lease.begin;
  }

  int64_t bytes() const { return bytes_; }

 private:
  std::vector<Lease> leases_;
  int64_t bytes_ = 0;
};

absl::Status CheckTopK(const CheckedProgram& program) {
  for (size_t i = 0; i < program.ops().size(); ++i) {
    const ProgramOp& op = program.ops()[i];
    if (op.top_k <= kMaxTopK) continue;
    return absl::UnimplementedError(
        absl::StrCat("op ", i, " (", LabelOf(op), "): k = ", op.top_k,
                     "; the cpu backend takes at most ", kMaxTopK));
  }
  return absl::OkStatus();
}

}  // namespace

ValueLayout LayOutValues(const CheckedProgram& program) {
  using Memory = ValuePlace::Memory;
  ValueLayout layout;
  ScratchPlan scratch;
  int64_t inputs_bytes = 0;
  int64_t constants = 0;
  for (const ProgramValue& value : program.values()) {
    if (value.origin == ProgramValue::Origin::kInput) {
      layout.places.push_back({Memory::kInputs, inputs_bytes});
      inputs_bytes += value.row_bytes();
    } else if (value.origin == ProgramValue::Origin::kConstant) {
      layout.places.push_back({Memory::kConstant, constants++});
    } else if (value.output < 0) {
      layout.places.push_back({Memory::kScratch, scratch.Add(value)});
    } else {
      layout.places.push_back({Memory::kOutputs, 0});
    }
  }
  int64_t outputs_bytes = 0;
  for (const ValueNumber output : program.program().outputs) {
    layout.places[output].offset = outputs_bytes;
    outputs_bytes += program.values()[output].row_bytes();
  }
  layout.scratch_bytes = scratch.bytes();
  return layout;
}

absl::StatusOr<std::shared_ptr<const CpuProgram>> CpuProgram::Create(
    std::shared_ptr<const CheckedProgram> program, WeightsOfProgram weights) {
  const absl::Status status = CheckTopK(*program);
  if (!status.ok()) return status;
  return std::shared_ptr<const CpuProgram>(
      new CpuProgram(std::move(program), std::move(weights)));
}

CpuProgram::CpuProgram(std::shared_ptr<const CheckedProgram> program,
                       WeightsOfProgram weights)
    : CompiledProgram(std::move(program), std::move(weights)),
      layout_(LayOutValues(this->program())) {}

}  // namespace qgemm::cpu
