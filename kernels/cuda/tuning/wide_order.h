// SPDX-License-Identifier: Apache-2.0
//
// The tiles of C in the wide family and the order in which blocks of threads
// take them: those that are multiplied at the same time share rows of W and
// tokens, which then come from the second-level cache.

#ifndef QGEMM_KERNELS_CUDA_TUNING_WIDE_ORDER_H_
#define QGEMM_KERNELS_CUDA_TUNING_WIDE_ORDER_H_

// Callable from device code where the compiler knows of it.
#ifdef __CUDACC__
#define QGEMM_WIDE_ORDER_INLINE __host__ __device__ constexpr
#else
#define QGEMM_WIDE_ORDER_INLINE constexpr
#endif

namespace qgemm::cuda {

// A tile of C: rows of W in row tiles of 16, by 64 to 256 tokens.
inline constexpr int kWideRowTiles = 8;
inline constexpr int kWideRows = kWideRowTiles * 16;
inline constexpr int kWideTokenCounts[] = {64, 128, 192, 256};
// Row blocks that take turns before the next tokens. A row block's weights are
// a quarter of the bytes of as many tokens, or less.
inline constexpr int kWideDepth = 16;

struct WideGrid {
  int row_blocks = 1;
  int token_blocks = 1;
};

// Which rows and which tokens, in units of a tile's.
struct WideTile {
  int row_block;
  int token_block;
};

QGEMM_WIDE_ORDER_INLINE int WideTiles(const WideGrid& grid) {
  return grid.row_blocks * grid.token_blocks;
}

// The tile at `index`, 0 to WideTiles - 1.
QGEMM_WIDE_ORDER_INLINE WideTile WideTileAt(const WideGrid& grid, int index) {
  const int group = index / (kWideDepth * grid.token_blocks);
  const int first = group * kWideDepth;
  const int left = grid.row_blocks - first;
  const int rows = left < kWideDepth ? left : kWideDepth;
  const int within = index - first * grid.token_blocks;
  return {first + within % rows, within / rows};
}

}  // namespace qgemm::cuda

#undef QGEMM_WIDE_ORDER_INLINE

#endif  // QGEMM_KERNELS_CUDA_TUNING_WIDE_ORDER_H_
