// SPDX-License-Identifier: Apache-2.0
//
// Launches of mode A32: C = A * W^T + bias for weights whose codes are whole
// numbers and fp32 activations, which are split into bf16 parts first.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_A32_GEMM_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_A32_GEMM_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/layout/tiled_weights.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {

struct A32Operands {
  // A codebook of 4 bits is -8 to 7, or 0 to 15 where there are zeros.
  TiledWeights weights;
  // Device, [m, k] of a_type without gaps, in the caller's column order.
  const void* a = nullptr;
  FloatType a_type = FloatType::kFloat32;
  // Device, room for A32LayoutOf(m, k), 16-byte aligned; overwritten.
  uint8_t* split = nullptr;
  void* c = nullptr;  // device, [m, n] of c_type, overwritten
  FloatType c_type = FloatType::kFloat32;
  int64_t m = 0;
};

// Raises the limit of shared memory of the kernels' blocks. Once a device,
// which is the current one, before the first launch.
cudaError_t PrepareA32Gemm(const Device& device);

// Splits and multiplies, for m up to kMaxA32M. Enqueues on `stream`, as
// LaunchDecodeGemm does (gemm.h). A row of C has the same bits for every m and
// any neighbours. cudaErrorInvalidValue if an operand is illegal or the layer
// is not offered (OffersA32).
cudaError_t LaunchA32Gemm(const A32Operands& operands, cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_A32_GEMM_H_
