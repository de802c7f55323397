// SPDX-License-Identifier: Apache-2.0
//
// The place of every quantized activation and its scale in device memory, for
// the two kernels of mode A8, in the order of K that the weights of 4 bits
// stand in (tile_layout.h).
//
// Q8Layout, for few rows: fragment order of mma.m16n8k32, so that a lane's
// activations are its registers. Rows are cut into tiles of 8, columns into
// tiles of 128. A tile has 1024 bytes of q8, then 32 d8 in fp32. Tiles follow
// each other by rows within a row block of `tile_m` rows, the most that a block
// of threads multiplies, then along K, then by row block.
//
// Column 64 q + 32 b + 8 j + 2 t + h of row r has its q8 in byte
//   64 R q + 16 (4 r + t) + 8 b + 4 h + j
// of a tile of R rows: a lane's four bytes of an operand are 8 columns apart,
// since a word of weights has those pairs. Block 2 q + b of row r has its d8 at
//   128 R + 16 ceil(R / 2) q + 16 (r / 2) + 8 b + 4 (r % 2).
// R is 8, or 1 where all of A is one row, which blocks quantize themselves.
//
// Q8PanelLayout, for many rows: integers in fp16, [m][k], as TMA brings panels
// of 64 columns; d8 before them. Column 16 s + 8 j + 2 t + h of a row stands at
// 16 s + 8 h + 2 t + j: in a word of weights two masks then make operands of
// columns j = 0 and 1. Of each panel, d8 of 16 rows at a time: those of its
// first 32 columns, then of the others; row 8 i + 2 t + h of the 16 is float
// 4 t + 2 i + h of them, so that a lane's columns of two sums are 16 bytes.

#ifndef QGEMM_KERNELS_CUDA_LAYOUT_Q8_LAYOUT_H_
#define QGEMM_KERNELS_CUDA_LAYOUT_Q8_LAYOUT_H_

#include <cstdint>

#include "base/host_device.h"
#include "kernels/cuda/layout/tile_config.h"

namespace qgemm::cuda {

// Columns of a block of Q8_1.
inline constexpr int kQ8Block = 32;
// Lanes of a warp that have a block of a row: each, 8 of its columns.
inline constexpr int kQ8Lanes = 4;
inline constexpr int kQ8TileRows = 8;
inline constexpr int kQ8TileBlocks = kTileColumns / kQ8Block;
inline constexpr int kQ8CodeBytes = kQ8TileRows * kTileColumns;
inline constexpr int kQ8TileBytes =
    kQ8CodeBytes + kQ8TileRows * kTileColumns / kQ8Block * 4;
// Bytes of a row's part of a tile.
inline constexpr int kQ8RowBytes = kQ8TileBytes / kQ8TileRows;

// Rows of a row block, where there are m in all: 8, 16, 32 or 64.
QGEMM_HOST_DEVICE constexpr int Q8TileM(int64_t m) {
  for (int tile_m = kQ8TileRows; tile_m < kDecodeBlockM; tile_m *= 2) {
    if (m <= tile_m) return tile_m;
  }
  return kDecodeBlockM;
}

// Quantized activations of m rows and k_tiles column tiles. Rows up to the next
// multiple of tile_m have room whose contents nobody sees.
struct Q8Layout {
  int64_t m = 0;
  int64_t k_tiles = 0;
  int tile_m = kQ8TileRows;

  QGEMM_HOST_DEVICE int64_t block_bytes() const {
    return k_tiles * tile_m * kQ8RowBytes;
  }
  QGEMM_HOST_DEVICE int64_t total_bytes() const {
    return CeilDiv(m, int64_t{tile_m}) * block_bytes();
  }
  // Offset of the tile of row `row`, column tile `k_tile`.
  QGEMM_HOST_DEVICE int64_t TileOffset(int64_t row, int64_t k_tile) const {
    return row / tile_m * block_bytes() + k_tile * tile_m * kQ8RowBytes +
           row % tile_m / kQ8TileRows * kQ8TileBytes;
  }
};

QGEMM_HOST_DEVICE Q8Layout Q8LayoutOf(int64_t m, int64_t k) {
  Q8Layout layout;
  layout.m = m;
  layout.k_tiles = CeilDiv(k, int64_t{kTileColumns});
  layout.tile_m = Q8TileM(m);
  return layout;
}

// Offsets in a tile of `rows` rows, and its bytes; `row` is 0 to rows - 1,
// `column` 0 to 127, `block` 0 to 3.
QGEMM_HOST_DEVICE constexpr int Q8CodeOffset(int row, int column,
                                             int rows = kQ8TileRows) {
  const int in_block = column % kQ8Block;
  return column / 64 * 64 * rows + (row * 4 + in_block / 2 % 4) * 16 +
         column / kQ8Block % 2 * 8 + in_block % 2 * 4 + in_block / 8;
}
QGEMM_HOST_DEVICE constexpr int Q8ScaleOffset(int row, int block,
                                              int rows = kQ8TileRows) {
  return rows * kTileColumns + block / 2 * 16 * ((rows + 1) / 2) +
         row / 2 * 16 + block % 2 * 8 + row % 2 * 4;
}
QGEMM_HOST_DEVICE constexpr int Q8TileBytes(int rows) {
  return rows * kTileColumns + 2 * 16 * ((rows + 1) / 2);
}

// Columns and blocks of a panel of activations, and rows whose scales stand
// together.
inline constexpr int kQ8PanelColumns = 64;
inline constexpr int kQ8PanelBlocks = kQ8PanelColumns / kQ8Block;
inline constexpr int kQ8ScaleRows = 16;
// Bytes of a row's scales in a panel.
inline constexpr int kQ8PanelScaleBytes = kQ8PanelBlocks * 4;

// Place of column `column` of a row among the row's integers.
QGEMM_HOST_DEVICE constexpr int64_t Q8PanelColumn(int64_t column) {
  const int64_t in_step = column % 16;
  return column - in_step + in_step % 2 * 8 + in_step / 2 % 4 * 2 + in_step / 8;
}

struct Q8PanelLayout {
  int64_t m = 0;
  int64_t k = 0;
  int64_t k_tiles = 0;

  // Rows that have room for scales.
  QGEMM_HOST_DEVICE int64_t scale_rows() const {
    return RoundUp(m, int64_t{kQ8ScaleRows});
  }
  // Bytes of the scales of a panel, rows `row` on of which start at
  // row * kQ8PanelScaleBytes, for multiples of kQ8ScaleRows.
  QGEMM_HOST_DEVICE int64_t panel_scale_bytes() const {
    return scale_rows() * kQ8PanelScaleBytes;
  }
  // The scale of the row's block, counted from the first float.
  QGEMM_HOST_DEVICE int64_t ScaleIndex(int64_t row, int64_t block) const {
    const int64_t in_rows = row % kQ8ScaleRows;
    return (block / kQ8PanelBlocks * scale_rows() + row - in_rows) *
               kQ8PanelBlocks +
           block % kQ8PanelBlocks * kQ8ScaleRows + in_rows / 2 % 4 * 4 +
           in_rows / 8 * 2 + in_rows % 2;
  }
  // Offset of the integers; a multiple of 256.
  QGEMM_HOST_DEVICE int64_t integers_offset() const {
    return k_tiles * (kTileColumns / kQ8PanelColumns) * panel_scale_bytes();
  }
  QGEMM_HOST_DEVICE int64_t total_bytes() const {
    return integers_offset() + m * k * 2;
  }
};

QGEMM_HOST_DEVICE Q8PanelLayout Q8PanelLayoutOf(int64_t m, int64_t k) {
  return {m, k, CeilDiv(k, int64_t{kTileColumns})};
}

// Room for a row in either layout, of a number of rows that is a multiple of
// kDecodeBlockM or more.
QGEMM_HOST_DEVICE constexpr int64_t Q8RoomOfRow(int64_t k_tiles) {
  return k_tiles * (kTileColumns * 2 + kQ8TileBlocks * 4);
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAYOUT_Q8_LAYOUT_H_
