// SPDX-License-Identifier: Apache-2.0

#include "kernels/host/batch_checks.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

absl::Status CheckExtent(absl::string_view name, int64_t value, int64_t limit) {
  if (value >= 1 && value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "weights: ", name, " = ", value, " is not between 1 and ", limit));
}

}  // namespace

absl::Status CheckOptions(absl::string_view backend,
                          absl::Span<const NamedOption> options,
                          int64_t least) {
  for (const auto& [name, value] : options) {
    if (value >= least) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(backend, ": ", name, " = ", value, " is below ", least));
  }
  return absl::OkStatus();
}

absl::Status CheckLayerLimits(const WeightsShape& shape,
                              const BackendLimits& limits) {
  RETURN_IF_ERROR(CheckExtent("n", shape.n, limits.max_n));
  return CheckExtent("k", shape.k, limits.max_k);
}

absl::Status CheckRounding(const MatmulSignature& signature) {
  if (signature.mode != ComputeMode::kA16 ||
      signature.a_type != FloatType::kFloat32 ||
      signature.rounding != FloatType::kFloat32) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "signature: rounding = fp32 in mode A16; it must be fp16 or bf16");
}

absl::Status CheckBatch(const GemmBatch& batch, int64_t max_rows) {
  if (batch.weights == nullptr) {
    return absl::InvalidArgumentError("batch: no weights");
  }
  int64_t rows = 0;
  for (const RowSegment& segment : batch.segments) {
    if (segment.rows < 1 || segment.rows > max_rows - rows) {
      return absl::InvalidArgumentError(absl::StrCat(
          "batch: a segment of ", segment.rows, " rows after ", rows,
          " others; a segment has at least 1, a batch at most ", max_rows));
    }
    if (segment.a == nullptr || segment.c == nullptr) {
      return absl::InvalidArgumentError("batch: a segment without operands");
    }
    rows += segment.rows;
  }
  if (rows > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("batch: no rows");
}

}  // namespace qgemm
