// SPDX-License-Identifier: Apache-2.0
//
// Kernels on rows beside the multiplication: activations before it, fp32 sums
// after it.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_ROWS_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/matrix/types.h"

namespace qgemm::cuda {

// out[i, j] = a[i, permutation[j]], rounded once to nearest even; columns k
// to ldo are zero.
struct PrepareRowsArgs {
  const void* a = nullptr;  // device, [m, k] without gaps
  FloatType a_type = FloatType::kFloat16;
  int64_t m = 0;
  int64_t k = 0;
  const int32_t* permutation = nullptr;      // device, [k], or null for none
  FloatType out_type = FloatType::kFloat16;  // kFloat16 or kBFloat16
  void* out = nullptr;  // device, [m, ldo], 16-byte aligned, not within a
  int64_t ldo = 0;      // at least k, a multiple of 8
};

// Enqueues on `stream` and returns. Errors: cudaErrorInvalidValue.
cudaError_t LaunchPrepareRows(const PrepareRowsArgs& args, cudaStream_t stream);

// Device memory; strides in elements, from row to row.
struct AddBiasOperands {
  const float* sums = nullptr;  // [m, sums_stride]
  int64_t sums_stride = 0;
  const float* bias = nullptr;  // [n], or null
  void* c = nullptr;            // [m, c_stride] of c_type
  int64_t c_stride = 0;
  FloatType c_type = FloatType::kFloat16;
  int64_t m = 0;
  int64_t n = 0;
};

// c[i, j] = sums[i, j] + bias[j] for i < m and j < n. Enqueues on `stream`;
// operands stay borrowed until it passes.
cudaError_t LaunchAddBias(const AddBiasOperands& operands, cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_ROWS_H_
