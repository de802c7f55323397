// SPDX-License-Identifier: Apache-2.0
//
// What launches of the small-M and the wide family share: from operands to
// arguments, and activations described to the copy engine.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_WQA16_LAUNCH_CUH_
#define QGEMM_KERNELS_CUDA_LAUNCH_WQA16_LAUNCH_CUH_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/device/wqa16_arguments.cuh"
#include "kernels/cuda/launch/gemm_operands.h"

namespace qgemm::cuda {

// Finds the driver's function that MapActivations calls; on devices that have a
// copy engine, before the first launch.
cudaError_t PrepareCopyEngine();

// Describes A to the copy engine: boxes of `tokens` by 64 columns, swizzled,
// zero beyond m and k. Does nothing where PrepareCopyEngine has not run.
cudaError_t MapActivations(const GemmOperands& operands, int tokens,
                           CUtensorMap& map);

// Whether kernels can read A.
bool ActivationsAreLegal(const GemmOperands& operands);

// What follows from the operands alone. A stage is one of the layer's.
GemmArguments OperandArguments(const GemmOperands& operands);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_WQA16_LAUNCH_CUH_
