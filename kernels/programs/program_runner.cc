// SPDX-License-Identifier: Apache-2.0

#include "kernels/programs/program_runner.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/programs/op_fields.h"

namespace qgemm {
namespace {

// An element of an activation takes a core 4 to 8 ns, in which it does some 256
// multiply-adds with 4-bit weights.
constexpr int64_t kElementMultiplyAdds = 256;

}  // namespace

CompiledProgram::CompiledProgram(std::shared_ptr<const CheckedProgram> program,
                                 WeightsOfProgram weights)
    : program_(std::move(program)), weights_(std::move(weights)) {
  const int64_t ops = static_cast<int64_t>(program_->ops().size());
  for (int64_t op = 0; op < ops; ++op) {
    if (program_->ops()[op].kind == OpKind::kGemm) {
      const ResidentWeights& layer = *weights_[program_->weights_of(op)];
      row_multiply_adds_ += layer.n() * layer.k();
    } else {
      const int64_t x = program_->ops()[op].x;
      row_multiply_adds_ += program_->values()[x].width * kElementMultiplyAdds;
    }
  }
}

absl::Status CheckProgramSupport(const Backend& backend,
                                 const CheckedProgram& program,
                                 const WeightsOfProgram& weights) {
  CHECK_EQ(weights.size(), program.weights_ids().size());
  const int64_t ops = static_cast<int64_t>(program.ops().size());
  for (int64_t op = 0; op < ops; ++op) {
    if (program.ops()[op].kind != OpKind::kGemm) continue;
    const absl::Status status = backend.CheckSupport(
        *weights[program.weights_of(op)], program.signature_of(op));
    if (status.ok()) continue;
    return absl::Status(
        status.code(), absl::StrCat("op ", op, " (", LabelOf(program.ops()[op]),
                                    "): ", status.message()));
  }
  return absl::OkStatus();
}

absl::Status CheckTopK(absl::string_view backend, const CheckedProgram& program,
                       int64_t max_k) {
  for (size_t i = 0; i < program.ops().size(); ++i) {
    const ProgramOp& op = program.ops()[i];
    if (op.top_k <= max_k) continue;
    return absl::UnimplementedError(
        absl::StrCat("op ", i, " (", LabelOf(op), "): k = ", op.top_k, "; the ",
                     backend, " backend takes at most ", max_k));
  }
  return absl::OkStatus();
}

absl::Status CheckProgramBatch(const ProgramBatch& batch, int64_t max_rows) {
  if (batch.program == nullptr) {
    return absl::InvalidArgumentError("batch: no program");
  }
  int64_t rows = 0;
  for (const ProgramSegment& segment : batch.segments) {
    if (segment.first < 0 || segment.rows < 1 ||
        segment.rows > segment.m - segment.first) {
      return absl::InvalidArgumentError(
          absl::StrCat("batch: a segment of ", segment.rows, " rows from ",
                       segment.first, " on of a request of ", segment.m));
    }
    if (segment.rows > max_rows - rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("batch: a segment of ", segment.rows, " rows after ",
                       rows, " others; a batch has at most ", max_rows));
    }
    if (segment.inputs == nullptr || segment.outputs == nullptr) {
      return absl::InvalidArgumentError("batch: a segment without operands");
    }
    rows += segment.rows;
  }
  if (rows > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("batch: no rows");
}

}  // namespace qgemm
