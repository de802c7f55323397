// SPDX-License-Identifier: Apache-2.0
//
// How a layer is shared out over a GPU in the small-M family: which rows and
// which part of K a block multiplies. It fixes the order in which a result is
// summed, so it depends on the layer and the device, never on M.

#ifndef QGEMM_KERNELS_CUDA_TUNING_PARTITION_H_
#define QGEMM_KERNELS_CUDA_TUNING_PARTITION_H_

#include <cstdint>

#include "kernels/cuda/tuning/device_traits.h"

namespace qgemm::cuda {

// Rows and columns of a tile of weights: the rows of one MMA, and four
// blocks of 32.
inline constexpr int kTileRows = 16;
inline constexpr int kTileColumns = 128;
// Row tiles of a block of threads, at most.
inline constexpr int kMaxRowTiles = 16;

struct Partition {
  int row_tiles = 1;       // of one block of threads, 1 to kMaxRowTiles
  int splits = 1;          // of K: blocks of a cluster, 1, 2, 4 or 8
  int column_warps = 1;    // warps that take turns at a tile's columns: 1 to 4
  int64_t row_blocks = 1;  // of row_tiles each; the last may reach beyond n

  friend bool operator==(const Partition& a, const Partition& b) {
    return a.row_tiles == b.row_tiles && a.splits == b.splits &&
           a.column_warps == b.column_warps && a.row_blocks == b.row_blocks;
  }
};

struct PartitionedLayer {
  int64_t n = 1;
  int64_t k = 1;
  int max_row_tiles = kMaxRowTiles;  // of a block
};

// What a launch of 64 tokens is expected to take.
double SmallMicroseconds(const PartitionedLayer& layer,
                         const Partition& partition,
                         const DeviceTraits& device);

// The partition with which launches of few tokens, and of 64, are fastest by
// estimate. n, k and max_row_tiles are at least 1.
Partition ChoosePartition(const PartitionedLayer& layer,
                          const DeviceTraits& device);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_TUNING_PARTITION_H_
