// SPDX-License-Identifier: Apache-2.0
//
// What the kernels that read packed weights are launched with: C = A * W^T +
// bias.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_GEMM_OPERANDS_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_GEMM_OPERANDS_H_

#include <cstdint>

#include "kernels/cuda/launch/tiled_weights.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {

struct GemmOperands {
  TiledWeights weights;
  // Device, [m, lda] of a_type (fp16 or bf16) in the layer's column order;
  // 16-byte aligned, lda a multiple of 8 and at least k. Columns from k on
  // are not read.
  const void* a = nullptr;
  int64_t lda = 0;
  FloatType a_type = FloatType::kFloat16;
  void* c = nullptr;  // device, [m, n] of c_type, overwritten
  FloatType c_type = FloatType::kFloat16;
  int64_t m = 0;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_GEMM_OPERANDS_H_
