// SPDX-License-Identifier: Apache-2.0
//
// One thread a column and some rows.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "kernels/cuda/launch/add_bias.h"

namespace qgemm::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxGridRows = 65535;

__device__ __forceinline__ void Store(float value, float* out) { *out = value; }
__device__ __forceinline__ void Store(float value, __half* out) {
  *out = __float2half_rn(value);
}
__device__ __forceinline__ void Store(float value, __nv_bfloat16* out) {
  *out = __float2bfloat16_rn(value);
}

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    AddBiasKernel(const AddBiasOperands operands) {
  const int64_t column = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (column >= operands.n) return;
  const float bias = operands.bias == nullptr ? 0.0f : operands.bias[column];
  Element* const c = static_cast<Element*>(operands.c);
  for (int64_t row = blockIdx.y; row < operands.m; row += gridDim.y) {
    // The sum alone where there is no bias: -0 + 0 would lose its sign.
    const float sum = operands.sums[row * operands.sums_stride + column];
    Store(operands.bias == nullptr ? sum : sum + bias,
          &c[row * operands.c_stride + column]);
  }
}

}  // namespace

cudaError_t LaunchAddBias(const AddBiasOperands& operands,
                          cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((operands.n + kThreads - 1) / kThreads),
                  static_cast<unsigned>(std::min(operands.m, kMaxGridRows)));
  switch (operands.c_type) {
    case FloatType::kFloat32:
      AddBiasKernel<float><<<grid, kThreads, 0, stream>>>(operands);
      break;
    case FloatType::kFloat16:
      AddBiasKernel<__half><<<grid, kThreads, 0, stream>>>(operands);
      break;
    case FloatType::kBFloat16:
      AddBiasKernel<__nv_bfloat16><<<grid, kThreads, 0, stream>>>(operands);
      break;
  }
  return cudaGetLastError();
}

}  // namespace qgemm::cuda
