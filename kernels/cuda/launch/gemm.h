// SPDX-License-Identifier: Apache-2.0
//
// Launches of the two fused kernels: C = A * W^T + bias for quantized weights
// and 16-bit activations, decode for few rows of A, prefill for many.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_GEMM_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_GEMM_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/layout/tiled_weights.h"
#include "kernels/cuda/plan/tile_scheduler.h"
#include "kernels/cuda/runtime/device.h"
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
  // Prefill launches only: device, kHandedBytes, of this launch alone while it
  // runs, 16-byte aligned. Words from kPrefillWordsOffset on are zero, and zero
  // again after. Null: no tile is split.
  uint8_t* handed = nullptr;
};

// Raise the limit of shared memory of the kernels' blocks. Once a device, which
// is the current one, before the first launch.
cudaError_t PrepareDecodeGemm(const Device& device);
// Also sets device.traits.has_wgmma: launches a kernel and waits for it.
cudaError_t PreparePrefillGemm(Device& device);

// The launches below enqueue on `stream`, a stream of `device`; operands stay
// borrowed until it passes. They allocate and synchronise nothing, and may be
// captured into a graph. The kernel starts to read weights while the one before
// it in the stream still runs (PDL): weights must not be written by that one.

// For m up to kMaxDecodeM. A row of C has the same bits for every m and any
// neighbours. cudaErrorInvalidValue if an operand is illegal, or the layer has
// no decode kernel on the device it was laid out for.
cudaError_t LaunchDecodeGemm(const Device& device, const GemmOperands& operands,
                             cudaStream_t stream);

// For any m. A row of C has the same bits for any neighbours, and, by whole
// tiles of as many rows of A, for every m, but not those of LaunchDecodeGemm.
// `tiling` is that of EstimatePrefill if its tile_m is 0. cudaErrorInvalidValue
// if an operand is illegal or the layer is not offered (OffersPrefill).
cudaError_t LaunchPrefillGemm(const Device& device,
                              const GemmOperands& operands, cudaStream_t stream,
                              PrefillTiling tiling = {});

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_GEMM_H_
