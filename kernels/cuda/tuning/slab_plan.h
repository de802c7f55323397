// SPDX-License-Identifier: Apache-2.0
//
// How many rows of a layer the large-M family dequantizes at a time. Pure.
// While a slab is multiplied the next one is dequantized beside it, on
// multiprocessors that the multiplication leaves idle.

#ifndef QGEMM_KERNELS_CUDA_TUNING_SLAB_PLAN_H_
#define QGEMM_KERNELS_CUDA_TUNING_SLAB_PLAN_H_

#include <cstdint>
#include <limits>

#include "kernels/cuda/tuning/device_traits.h"

namespace qgemm::cuda {

// Of a slab in scratch. Where there is more than one slab, two are there. A
// layer of 256 MiB at most may so be multiplied at once; of 28672 columns,
// 1024 rows of activations fill an H100 with slabs of 232 MiB.
inline constexpr int64_t kMaxSlabBytes = int64_t{256} << 20;
// Slabs are of a multiple of so many rows: the long side of cuBLAS's largest
// tile.
inline constexpr int64_t kSlabUnitRows = 256;

struct SlabProblem {
  int64_t m = 0;  // rows of activations
  int64_t n = 0;  // rows of the layer
  int64_t k = 0;  // elements of a row in scratch
  // What other buffers have room for.
  int64_t max_rows = std::numeric_limits<int64_t>::max();
};

// Microseconds that slabs of `rows` rows are expected to take, launches and
// the dequantizing that nothing hides included.
double SlabMicroseconds(const SlabProblem& problem, int64_t rows,
                        const DeviceTraits& device);

// Rows of a slab: n, or a multiple of kSlabUnitRows; fewer only where not even
// those fit, then a multiple of 16. m, n and k are at least 1.
int64_t SlabRows(const SlabProblem& problem, const DeviceTraits& device);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_TUNING_SLAB_PLAN_H_
