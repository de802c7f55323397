// SPDX-License-Identifier: Apache-2.0
//
// Memory and layers on the GPU, through the builder and without a backend.

#ifndef QGEMM_TESTS_KERNELS_CUDA_DEVICE_LAYER_H_
#define QGEMM_TESTS_KERNELS_CUDA_DEVICE_LAYER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/layout/device_traits.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/matrix/canonical_weights.h"
#include "tests/support/random_weights.h"

namespace qgemm::cuda {

// Aborts where the device has no room.
DeviceBuffer Allocate(int64_t size_bytes);

// A copy of the bytes there, and of the device's here; abort where CUDA fails.
DeviceBuffer Upload(const void* bytes, int64_t size_bytes);
DeviceBuffer Upload(const std::vector<uint8_t>& bytes);
std::vector<uint8_t> Download(const DeviceBuffer& buffer);

// Memory of ones, so that what nobody writes shows.
DeviceBuffer AllocatePoisoned(int64_t size_bytes);

// The layer as it is laid out for `device`; aborts where that is refused.
std::shared_ptr<const CudaWeights> Load(const CanonicalWeights& weights,
                                        const DeviceTraits& device);

// The recipes of quantized layers, and a test's name of one.
std::vector<WeightsRecipe> QuantizedRecipes();
std::string NameOfRecipe(const testing::TestParamInfo<WeightsRecipe>& info);

}  // namespace qgemm::cuda

#endif  // QGEMM_TESTS_KERNELS_CUDA_DEVICE_LAYER_H_
