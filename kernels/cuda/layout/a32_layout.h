// SPDX-License-Identifier: Apache-2.0
//
// Activations of mode A32: a float as the sum of three bf16 parts, and the
// place of each part in device memory, in the order that MMAs read.
//
// Rows are cut into row blocks of `tile_m` rows, the most that a block of
// threads multiplies, columns into tiles of 128; a row block's part of a column
// tile is a stage. Stages follow each other along K, then by row block. A
// stage's order (A32Form) goes by the instruction that multiplies it:
//
// kFew: fragments of mma.m16n8k16, of 2 rows, whose parts are columns of one
// MMA. By block b of 32 columns a piece of 512 bytes: 16 for lane
// 4 (4 row + p) + t and part p (the largest first); those of p = 3 are room
// that nobody sees. Of one row in shared memory pieces are 192 bytes, without
// that room.
// kPanels: shared memory of wgmma for more rows, 128-byte swizzle. By half of
// 64 columns and part, a panel of 128 bytes a row, whose eight pieces of 16
// bytes stand at piece ^ (row % 8). Pieces 4 (b % 2) + t are those of block b.
// The panels of a half, part after part, are one of three times as many rows.
//
// The 16 bytes of a row's part, block and t are 8 columns, of a lane in four
// operand registers, two for each of two steps of 16 columns, or half of a
// step. Which columns depends on how the weights' codes are unpacked: an
// operand register has two neighbours, or two that are 8 apart.

#ifndef QGEMM_KERNELS_CUDA_LAYOUT_A32_LAYOUT_H_
#define QGEMM_KERNELS_CUDA_LAYOUT_A32_LAYOUT_H_

#include <cstdint>
#include <cstring>

#include "base/host_device.h"
#include "kernels/cuda/layout/tile_config.h"
#include "kernels/cuda/layout/tile_layout.h"

namespace qgemm::cuda {

inline constexpr int kA32Parts = 3;
// Rows whose parts are columns of one MMA, at most.
inline constexpr int kA32FewRows = 2;
inline constexpr int kA32TileRows = 8;
// Rows of a row block, at most.
inline constexpr int kA32BlockM = 32;
inline constexpr int kA32Block = 32;  // columns
inline constexpr int kA32TileBlocks = kTileColumns / kA32Block;
inline constexpr int kA32PieceBytes = 32 * 16;
// Bytes of a row in a stage, but of few rows.
inline constexpr int kA32RowBytes = kA32Parts * kTileColumns * 2;
inline constexpr int kA32PanelRowBytes = 128;
static_assert(kA32RowBytes == 2 * kA32Parts * kA32PanelRowBytes,
              "two halves of a row are panel rows without gaps");

// Bits of three bf16 numbers.
struct A32Float {
  uint16_t parts[kA32Parts];
};

QGEMM_HOST_DEVICE float A32FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
QGEMM_HOST_DEVICE uint32_t A32BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// The float of those bits: its first 8 significant bits, the next 8 and the
// last 8, with its sign. They add up to it exactly, but for bits below 2^-133,
// which bf16 does not have. Of a NaN or an infinity the first part is one, and
// the others are 0.
QGEMM_HOST_DEVICE A32Float SplitA32(uint32_t bits) {
  constexpr uint32_t kUpper = 0xffff0000u;
  constexpr uint32_t kExponent = 0x7f800000u;
  constexpr uint32_t kMantissa = 0x007fffffu;
  if ((bits & kExponent) == kExponent) {
    // A NaN stays one, whichever of its bits are set.
    const uint32_t quiet = (bits & kMantissa) != 0 ? 0x40 : 0;
    return {{static_cast<uint16_t>(bits >> 16 | quiet), 0, 0}};
  }
  const float rest = A32FloatOf(bits) - A32FloatOf(bits & kUpper);  // exact
  const uint32_t second = A32BitsOf(rest);
  const float last = rest - A32FloatOf(second & kUpper);  // exact
  return {{static_cast<uint16_t>(bits >> 16),
           static_cast<uint16_t>(second >> 16),
           static_cast<uint16_t>(A32BitsOf(last) >> 16)}};
}

// The two columns of an operand register.
enum class A32Pairs : uint8_t { kNeighbours, kEights };

// `codes` is TileLayout::codes.
QGEMM_HOST_DEVICE constexpr A32Pairs A32PairsOf(int codes) {
  return codes == 4 ? A32Pairs::kEights : A32Pairs::kNeighbours;
}

// The column, of a block's 32, in half `half` of register `word` (0 to 3) of
// the two steps of lanes with (lane % 4) = t.
QGEMM_HOST_DEVICE constexpr int A32Column(int t, int word, int half,
                                          A32Pairs pairs) {
  const bool eights = pairs == A32Pairs::kEights;
  return word / 2 * 16 + (eights ? half : word % 2) * 8 + 2 * t +
         (eights ? word % 2 : half);
}

enum class A32Form : uint8_t { kFew, kPanels };

QGEMM_HOST_DEVICE constexpr A32Form A32FormOf(int tile_m) {
  return tile_m <= kA32FewRows ? A32Form::kFew : A32Form::kPanels;
}

// Bytes of a panel.
QGEMM_HOST_DEVICE constexpr int A32PanelBytes(int tile_m) {
  return tile_m * kA32PanelRowBytes;
}

// The same for element i (0 to 7) of the 16 bytes of t.
QGEMM_HOST_DEVICE constexpr int A32ColumnIn(A32Form form, int t, int i,
                                            A32Pairs pairs) {
  return form == A32Form::kPanels ? A32Column(i / 2, t, i % 2, pairs)
                                  : A32Column(t, i / 2, i % 2, pairs);
}

// Rows of a row block, where there are m in all: 2, 8, 16 or 32.
QGEMM_HOST_DEVICE constexpr int A32TileM(int64_t m) {
  if (m <= kA32FewRows) return kA32FewRows;
  for (int tile_m = kA32TileRows; tile_m < kA32BlockM; tile_m *= 2) {
    if (m <= tile_m) return tile_m;
  }
  return kA32BlockM;
}

QGEMM_HOST_DEVICE constexpr int A32StageBytes(int tile_m) {
  return tile_m == kA32FewRows ? kA32TileBlocks * kA32PieceBytes
                               : tile_m * kA32RowBytes;
}

// Offset in a stage of the 16 bytes of a row's part, block and t.
struct A32Place {
  int row;  // of the row block
  int block;
  int t;
  int part;
};
QGEMM_HOST_DEVICE constexpr int A32Offset(const A32Place& place, int tile_m) {
  switch (A32FormOf(tile_m)) {
    case A32Form::kFew:
      return place.block * (A32StageBytes(tile_m) / kA32TileBlocks) +
             ((place.row * 4 + place.part) * 4 + place.t) * 16;
    case A32Form::kPanels:
      break;
  }
  const int piece = place.block % 2 * 4 + place.t;
  return (place.block / 2 * kA32Parts + place.part) * A32PanelBytes(tile_m) +
         place.row * kA32PanelRowBytes + (piece ^ place.row % 8) * 16;
}

// Split activations of m rows and k_tiles column tiles. Rows up to the next
// multiple of tile_m have room whose contents nobody sees.
struct A32Layout {
  int64_t m = 0;
  int64_t k_tiles = 0;
  int tile_m = kA32FewRows;

  QGEMM_HOST_DEVICE int64_t block_bytes() const {
    return k_tiles * A32StageBytes(tile_m);
  }
  QGEMM_HOST_DEVICE int64_t total_bytes() const {
    return CeilDiv(m, int64_t{tile_m}) * block_bytes();
  }
  // Offset of the stage of row `row`, column tile `k_tile`.
  QGEMM_HOST_DEVICE int64_t StageOffset(int64_t row, int64_t k_tile) const {
    return row / tile_m * block_bytes() + k_tile * A32StageBytes(tile_m);
  }
};

QGEMM_HOST_DEVICE A32Layout A32LayoutOf(int64_t m, int64_t k) {
  A32Layout layout;
  layout.m = m;
  layout.k_tiles = CeilDiv(k, int64_t{kTileColumns});
  layout.tile_m = A32TileM(m);
  return layout;
}

// A word of codes of 4 bits (tile_layout.h) becomes the four registers of a
// step's A operand: register r has the codes in the lowest four bits of either
// half of the word shifted right by that much. They are columns 8 apart of row
// g (r even) or g + 8.
QGEMM_HOST_DEVICE constexpr int A32CodeShift(int r) {
  return (r & 1) * 8 + (r >> 1) * 4;
}
inline constexpr uint32_t kA32CodeMask = 0x000f000f;

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAYOUT_A32_LAYOUT_H_
