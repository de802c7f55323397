// SPDX-License-Identifier: Apache-2.0
//
// Launches the small-M family: C = A * W^T + bias for M <= 64 tokens and
// quantized weights, 16-bit activations.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_WQA16_GEMM_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_WQA16_GEMM_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/launch/tiled_weights.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {

// Tokens of one launch, at most.
inline constexpr int64_t kMaxSmallM = 256;

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
  int64_t m = 0;  // 1 to kMaxSmallM
};

// Lets the kernels take the shared memory they need. Once a device, before
// the first launch; the device is the current one.
cudaError_t PrepareWqa16Gemm();

// Enqueues on `stream`; operands stay borrowed until it passes. Allocates and
// synchronises nothing, and may be captured into a graph. A row of C has the
// same bits for every m and any neighbours. The kernel starts to read weights
// while the one before it in the stream still runs: weights must not be
// written by that one. cudaErrorInvalidValue if an operand is
// illegal, or the layer has no small family on the device it was laid out for.
cudaError_t LaunchWqa16Gemm(const GemmOperands& operands, cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_WQA16_GEMM_H_
