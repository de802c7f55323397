// SPDX-License-Identifier: Apache-2.0
//
// Launches of mode A8: C = A * W^T + bias for weights of 4 bits and activations
// that are rounded to Q8_1 first.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_W4A8_GEMM_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_W4A8_GEMM_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/layout/tiled_weights.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {

struct W4A8Operands {
  TiledWeights weights;
  const void* a = nullptr;  // device, [m, k] of a_type, 8-byte aligned
  FloatType a_type = FloatType::kFloat16;
  // Device, Q8RoomOfRow(k_tiles) bytes for each of m rows, m rounded up to a
  // multiple of kDecodeBlockM; 16-byte aligned; overwritten.
  uint8_t* quantized = nullptr;
  void* c = nullptr;  // device, [m, n] of c_type, overwritten
  FloatType c_type = FloatType::kFloat16;
  int64_t m = 0;
  // Device, kHandedBytes, of this launch alone while it runs; 16-byte
  // aligned; overwritten. Null: blocks share no tiles, which may take longer.
  uint8_t* handed = nullptr;
};

// Raises the limit of shared memory of the kernels' blocks. Once a device,
// which is the current one, before the first launch and after
// PreparePrefillGemm.
cudaError_t PrepareW4A8Gemm(const Device& device);

// The choice of LaunchW4A8Gemm (W4A8PrefillTileM), and that of the kernel for
// few rows.
inline constexpr int kBestW4A8Kernel = -1;
inline constexpr int kFewRowsW4A8Kernel = 0;

// Quantizes and multiplies, for m up to kMaxW4A8M. Enqueues on `stream`, as
// LaunchDecodeGemm does (gemm.h). A row of C has the same bits for every m, any
// neighbours and either kernel. `kernel` is one of the above, or of
// kW4A8PrefillTileMs for the kernel for many rows. cudaErrorInvalidValue if an
// operand is illegal or the kernel does not multiply the layer (OffersW4A8,
// OffersW4A8Prefill).
cudaError_t LaunchW4A8Gemm(const Device& device, const W4A8Operands& operands,
                           cudaStream_t stream, int kernel = kBestW4A8Kernel);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_W4A8_GEMM_H_
