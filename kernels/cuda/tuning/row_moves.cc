// SPDX-License-Identifier: Apache-2.0
//
// Kernels move what is one launch and few bytes.

#include "kernels/cuda/tuning/row_moves.h"

#include "absl/strings/str_cat.h"

namespace qgemm::cuda {

absl::StatusOr<RowMoves> ParseRowMoves(absl::string_view text) {
  if (text == "auto") return RowMoves::kBySize;
  if (text == "copy_engines") return RowMoves::kByCopyEngines;
  return absl::InvalidArgumentError(absl::StrCat(
      "cuda backend: row_moves = \"", text, "\"; legal: auto, copy_engines"));
}

bool MovesByKernels(const BatchPlan& plan, const BatchShape& shape,
                    size_t segments, RowMoves moves) {
  if (moves == RowMoves::kByCopyEngines || plan.pieces().size() != 1 ||
      segments > kMaxMovedSegments) {
    return false;
  }
  const int64_t row_bytes = shape.a_row_bytes + shape.c_row_bytes;
  return shape.a_row_bytes % kMovedUnitBytes == 0 &&
         shape.c_row_bytes % kMovedUnitBytes == 0 &&
         plan.pieces().front().rows * row_bytes <= kMaxMovedBytes;
}

}  // namespace qgemm::cuda
