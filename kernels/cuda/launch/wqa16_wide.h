// SPDX-License-Identifier: Apache-2.0
//
// Launches the wide family: C = A * W^T + bias for many tokens and quantized
// weights, 16-bit activations, on chips with wgmma.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_WQA16_WIDE_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_WQA16_WIDE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/launch/gemm_operands.h"
#include "kernels/cuda/tuning/tile_layout.h"

namespace qgemm::cuda {

// Finds out whether the current device runs the kernels, and lets them take
// the shared memory they need. Once a device, before anything else here;
// launches a kernel and waits for it.
cudaError_t PrepareWqa16Wide();

// Whether LaunchWqa16Wide multiplies layers of that layout on the device that
// was prepared, in tiles of that many tokens. Scales in fp16, bf16 or fp32 must
// not change within 128 columns, and not at all in tiles of more than 128.
bool OffersWqa16Wide(const TileLayout& layout, int tokens = 128);

// The tokens of a tile that LaunchWqa16Wide chooses for m, and about how long
// it takes. Only for layouts that are offered.
int Wqa16WideTokens(const TileLayout& layout, int64_t m);
double Wqa16WideMicroseconds(const TileLayout& layout, int64_t m);

// Like LaunchWqa16Gemm, for any m, in tiles of `tokens` tokens, one of
// kWideTokenCounts or 0 for those of Wqa16WideTokens. A row of C has the same
// bits for any neighbours, and for every m in tiles of as many tokens, but not
// those of LaunchWqa16Gemm. cudaErrorInvalidValue if an operand is illegal or
// the layer is not offered.
cudaError_t LaunchWqa16Wide(const GemmOperands& operands, cudaStream_t stream,
                            int tokens = 0);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_WQA16_WIDE_H_
