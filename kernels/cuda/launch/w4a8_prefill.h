// SPDX-License-Identifier: Apache-2.0
//
// Launches of mode A8 for many rows, on chips with wgmma. w4a8_gemm.h chooses.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_W4A8_PREFILL_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_W4A8_PREFILL_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/launch/w4a8_gemm.h"
#include "kernels/cuda/runtime/device.h"

namespace qgemm::cuda {

// As PrepareW4A8Gemm. Does nothing on a device that lacks the kernels.
cudaError_t PrepareW4A8Prefill(const Device& device);

// As LaunchW4A8Gemm, by tiles of `tile_m` rows of A (kW4A8PrefillTileMs).
// cudaErrorInvalidValue too if OffersW4A8Prefill says no.
cudaError_t LaunchW4A8Prefill(const Device& device,
                              const W4A8Operands& operands, cudaStream_t stream,
                              int tile_m);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_W4A8_PREFILL_H_
