// SPDX-License-Identifier: Apache-2.0
//
// Places of the parts of a dense layer in device memory.

#ifndef QGEMM_KERNELS_CUDA_LAYOUT_DENSE_LAYOUT_H_
#define QGEMM_KERNELS_CUDA_LAYOUT_DENSE_LAYOUT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/matrix/types.h"
#include "kernels/matrix/weights.h"

namespace qgemm::cuda {

// Elements are [n, k], row-major without gaps, at offset 0.
struct DenseLayout {
  int64_t n = 0;
  int64_t k = 0;
  FloatType type = FloatType::kFloat16;  // kFloat16 or kBFloat16
  int64_t bias_offset = 0;               // fp32 [n], if there is one
  int64_t total_bytes = 0;

  int64_t row_bytes() const { return k * SizeOf(type); }
};

// The layout of a dense layer. Errors: INVALID_ARGUMENT (shape below 1 or
// beyond 2^50 elements), UNIMPLEMENTED (another type).
absl::StatusOr<DenseLayout> DenseLayoutOf(const WeightsShape& shape);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAYOUT_DENSE_LAYOUT_H_
