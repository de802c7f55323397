// SPDX-License-Identifier: Apache-2.0
//
// Launches the small-M family: C = A * W^T + bias for few tokens and quantized
// weights, 16-bit activations.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_WQA16_GEMM_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_WQA16_GEMM_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/launch/gemm_operands.h"

namespace qgemm::cuda {

// Tokens of one launch, at most; each 64 have blocks of threads of their own.
inline constexpr int64_t kMaxSmallM = 256;

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
