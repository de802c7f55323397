// SPDX-License-Identifier: Apache-2.0
//
// Parts that launches of the decode and the prefill kernel share: from operands
// to kernel parameters, and the tensor map of the activations.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_GEMM_LAUNCH_CUH_
#define QGEMM_KERNELS_CUDA_LAUNCH_GEMM_LAUNCH_CUH_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/prefill_gemm/arguments.cuh"
#include "kernels/cuda/launch/gemm.h"

namespace qgemm::cuda {

// Describes A to TMA: boxes of `tile_m` rows by 64 columns, swizzled, zero
// beyond m and k. Does nothing on a device without TMA.
cudaError_t MapActivations(const Device& device, const GemmOperands& operands,
                           int tile_m, CUtensorMap& map);

// True if kernels can read A.
bool ActivationsAreLegal(const GemmOperands& operands);

// The parameters that follow from the operands alone. A stage is one of the
// layer's.
GemmArguments OperandArguments(const GemmOperands& operands);

// The parameters of a launch that goes through C by tiles of kPrefillTileN rows
// of W and `tile_m` of A, but shared memory and the tensor map.
PrefillArguments TileArguments(const GemmOperands& operands, int tile_m);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_GEMM_LAUNCH_CUH_
