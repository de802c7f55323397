// SPDX-License-Identifier: Apache-2.0
//
// The order in which blocks of threads of the prefill kernel take the tiles of
// C: tiles that are multiplied at the same time share rows of W and rows of A,
// which then come from L2.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_TILE_SCHEDULER_H_
#define QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_TILE_SCHEDULER_H_

#include "base/host_device.h"

namespace qgemm::cuda {

// Row blocks that are taken before the next rows of A. A row block's weights
// are a quarter of the bytes of as many rows of A, or less.
inline constexpr int kRasterDepth = 16;

struct TileGrid {
  int n_blocks = 1;
  int m_blocks = 1;
};

// A tile's rows of W and of A, in units of a tile's.
struct OutputTile {
  int n_block;
  int m_block;
};

QGEMM_HOST_DEVICE constexpr int TileCount(const TileGrid& grid) {
  return grid.n_blocks * grid.m_blocks;
}

// The tile at `index`, 0 to TileCount - 1.
QGEMM_HOST_DEVICE constexpr OutputTile TileAt(const TileGrid& grid, int index) {
  const int group = index / (kRasterDepth * grid.m_blocks);
  const int first = group * kRasterDepth;
  const int left = grid.n_blocks - first;
  const int rows = left < kRasterDepth ? left : kRasterDepth;
  const int within = index - first * grid.m_blocks;
  return {first + within % rows, within / rows};
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_TILE_SCHEDULER_H_
