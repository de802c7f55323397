// SPDX-License-Identifier: Apache-2.0
//
// The decode kernel's share of a layer for each block of threads: its rows of W
// and its part of K a block of threads multiplies. It fixes the order in which
// a result is summed, so it depends on the layer and the device, never on M.

#ifndef QGEMM_KERNELS_CUDA_LAYOUT_TILE_CONFIG_H_
#define QGEMM_KERNELS_CUDA_LAYOUT_TILE_CONFIG_H_

#include <cstdint>

namespace qgemm::cuda {

// Rows and columns of a tile of weights: the rows of one MMA, and four
// blocks of 32.
inline constexpr int kTileRows = 16;
inline constexpr int kTileColumns = 128;
// Row tiles of a block of threads, at most.
inline constexpr int kMaxNTiles = 16;
// Rows of A of a block of threads, at most.
inline constexpr int kDecodeBlockM = 64;
// Rows of A of a decode launch, at most: each kDecodeBlockM of them have blocks
// of threads of their own, which run side by side where one leaves SMs free.
inline constexpr int64_t kMaxDecodeM = 256;

struct TileConfig {
  int n_tiles = 1;       // row tiles of a block of threads, 1 to kMaxNTiles
  int split_k = 1;       // blocks of a cluster that share K: 1, 2, 4 or 8
  int k_warps = 1;       // warps that alternate along a tile's K: 1 to 4
  int64_t n_blocks = 1;  // of n_tiles each; the last may reach beyond n

  friend bool operator==(const TileConfig& a, const TileConfig& b) {
    return a.n_tiles == b.n_tiles && a.split_k == b.split_k &&
           a.k_warps == b.k_warps && a.n_blocks == b.n_blocks;
  }
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAYOUT_TILE_CONFIG_H_
