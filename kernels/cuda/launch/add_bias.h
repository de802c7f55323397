// SPDX-License-Identifier: Apache-2.0
//
// The end of a multiplication whose sums stand in fp32: adds the bias and
// rounds once to the type of the result.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_ADD_BIAS_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_ADD_BIAS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/matrix/types.h"

namespace qgemm::cuda {

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

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_ADD_BIAS_H_
