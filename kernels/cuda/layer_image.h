// SPDX-License-Identifier: Apache-2.0
//
// A layer's image: all of it but its bytes, as other processes receive it.

#ifndef QGEMM_KERNELS_CUDA_LAYER_IMAGE_H_
#define QGEMM_KERNELS_CUDA_LAYER_IMAGE_H_

#include <string>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/layout/device_traits.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/host/weights_arena.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/layer_images.h"

namespace qgemm::cuda {

// LayerImage::detail of a layer.
std::string DetailOf(const CudaWeightsParts& parts);

// The parts of a layer of that image, without memory. Errors: INVALID_ARGUMENT
// (nothing that DetailOf returns on such a device, other bytes than its shape
// takes, or beyond the limits).
absl::StatusOr<CudaWeightsParts> PartsOf(const LayerImage& image,
                                         const DeviceTraits& device,
                                         const BackendLimits& limits);

// Gives the parts their memory.
void SetMemory(LayerMemory<DeviceBuffer> memory, CudaWeightsParts* parts);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAYER_IMAGE_H_
