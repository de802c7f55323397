// SPDX-License-Identifier: Apache-2.0
//
// Adds up the parts of a dense layer, checked in 64 bits.

#include "kernels/cuda/layout/dense_layout.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/checked_math.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kAlignment = 256;
constexpr int64_t kMaxElements = int64_t{1} << 50;

}  // namespace

absl::StatusOr<DenseLayout> DenseLayoutOf(const WeightsShape& shape) {
  if (shape.n < 1 || shape.k < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weights: n = ", shape.n, ", k = ", shape.k, "; both must be >= 1"));
  }
  const std::optional<int64_t> elements = CheckedMul(shape.n, shape.k);
  if (!elements.has_value() || *elements > kMaxElements) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights: n = ", shape.n, ", k = ", shape.k,
                     " are beyond 2^50 elements"));
  }
  if (shape.dense_type == FloatType::kFloat32) {
    return absl::UnimplementedError(
        "weights: dense type = fp32; the cuda backend offers fp16 and bf16");
  }
  DenseLayout layout;
  layout.n = shape.n;
  layout.k = shape.k;
  layout.type = shape.dense_type;
  layout.bias_offset = RoundUp(layout.n * layout.row_bytes(), kAlignment);
  layout.total_bytes = layout.bias_offset +
                       (shape.has_bias ? RoundUp(shape.n * 4, kAlignment) : 0);
  return layout;
}

}  // namespace qgemm::cuda
