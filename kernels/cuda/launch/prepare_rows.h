// SPDX-License-Identifier: Apache-2.0
//
// Activations as kernels read them: in the layer's column order, in fp16 or
// bf16, rows padded with zeros.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_PREPARE_ROWS_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_PREPARE_ROWS_H_

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

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_PREPARE_ROWS_H_
