// SPDX-License-Identifier: Apache-2.0
//
// The largest scale of a resident layer, which bounds its weights.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_LARGEST_SCALE_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_LARGEST_SCALE_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/launch/tiled_weights.h"

namespace qgemm::cuda {

// Writes max |scale| over the layer, scales as stored, to `largest` (device).
// Enqueues on `stream`; `largest` stays borrowed until it passes.
cudaError_t LaunchLargestScale(const TiledWeights& weights, float* largest,
                               cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_LARGEST_SCALE_H_
