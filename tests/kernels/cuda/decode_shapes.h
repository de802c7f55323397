// SPDX-License-Identifier: Apache-2.0
//
// Small layers that a device shares out in a way of choice.

#ifndef QGEMM_TESTS_KERNELS_CUDA_DECODE_SHAPES_H_
#define QGEMM_TESTS_KERNELS_CUDA_DECODE_SHAPES_H_

#include <cstdint>
#include <optional>

#include "kernels/cuda/layout/device_traits.h"

namespace qgemm::cuda {

struct LayerSize {
  int64_t n;
  int64_t k;
};

// A small layer that the device shares out with so many splits of K and so
// many row tiles a block, or nothing if there is none. n is no multiple of a
// tile's rows. Where K is in one part there are more stages of it than a
// block's ring has slots.
std::optional<LayerSize> ShapeWith(int split_k, int n_tiles,
                                   const DeviceTraits& device);

}  // namespace qgemm::cuda

#endif  // QGEMM_TESTS_KERNELS_CUDA_DECODE_SHAPES_H_
