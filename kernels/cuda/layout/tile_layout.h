// SPDX-License-Identifier: Apache-2.0
//
// The place of every code, scale and zero of a quantized layer in device
// memory: fragment order of mma.m16n8k16, so that a lane's weights are its
// registers. Decided here once; repacking, kernels and tests read it.
//
// The layer is cut into tiles of 16 rows and 128 columns, padded with zero
// scales. A stage holds the tiles of one row block (TileConfig::n_tiles) at
// one column tile, contiguous: all codes, then all scales, then all zeros, each
// by tile. Stages follow each other along K, then by row block.
//
// In a tile, column k and row r belong to lane 4 * g + t and to
//   half q, block b of 32, step s, register r2, element h of a pair:
//   r = g + 8 * hi,  k = 64 q + 32 b + 16 s + 8 r2 + 2 t + h.
// The pair (q, b, s, r2, hi) has index 16 q + p with p = 8 b + 4 s + 2 r2 + hi.
//   4 bits: byte 512 q + 16 lane + p holds the pair, h = 0 in the low nibble.
//   5 bits: the low nibbles as above; bit h = 0 of the pair's fifth bits is
//     bit (18 p + 7) % 32 of the word at 1024 + 8 lane + 4 q, bit h = 1 is
//     bit (18 p + 16) % 32.
//   3 bits: six words a lane, three a half: words 0..3 at 16 lane, 4 and 5 at
//     512 + 8 lane. Pairs p < 12 of a half stand in the low six bits of its
//     byte p (h = 0 in the low three); pair 12 + j has its six bits, two at a
//     time from the lowest, in the top two bits of bytes j, j + 4, j + 8.
//   2 bits: word 2 q + b at 16 lane; its byte 2 s + r2 holds four codes, from
//     the lowest: (hi, h) = (0, 0), (0, 1), (1, 0), (1, 1).
//   Numbers: words as of 4 bits; pair p has code h at bits 4 (p % 4) + 16 h of
//     word p / 4: a shift and a mask make the low bits of two halves of it.
//   Ternary: words as of 2 bits; pair p has code h at bit 2 (p % 8) + 16 h of
//     word 2 q + b, kept as -1, 0 or 1 in two's complement: a shift and a mask
//     make the pair's sign and exponent bits of it.
// A tile's scales, and its zeros, stand by (g, j, hi): index
// 2 (g * groups + j) + hi, with j the group within the 128 columns.

#ifndef QGEMM_KERNELS_CUDA_LAYOUT_TILE_LAYOUT_H_
#define QGEMM_KERNELS_CUDA_LAYOUT_TILE_LAYOUT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/cuda/layout/tile_config.h"
#include "kernels/matrix/types.h"
#include "kernels/matrix/weights.h"

namespace qgemm::cuda {

// Storage of scales. A layer with one scale a row keeps fp32 scales beside
// the tiles, none in them.
enum class ScaleKind : uint8_t { kE4m4, kFloat16, kBFloat16, kFloat32, kRow };

// TileLayout::codes is the bits of a code, 2 to 5, or this for
// layers of 2 bits with one scale a row whose codes 0, 1 and 2 are -1, 0 and 1.
inline constexpr int kTernaryCodes = 1;
// Or this for layers of 4 bits with zeros, whose codes are the numbers 0 to 15.
inline constexpr int kNumberCodes = 6;

// Bits of a code that is kept so.
constexpr int BitsOf(int codes) {
  if (codes == kTernaryCodes) return 2;
  return codes == kNumberCodes ? 4 : codes;
}

struct TileLayout {
  int64_t n = 0;
  int64_t k = 0;
  int bits = 0;
  int codes = 0;  // bits, kTernaryCodes or kNumberCodes
  ScaleKind scale_kind = ScaleKind::kRow;
  // Groups in the 128 columns of a tile: 4, 2 or 1 for groups of 32, 64 and
  // 128 columns. Zeros of a kRow layer are repeated for every tile.
  int groups = 1;
  bool has_zeros = false;
  TileConfig tile_config;
  int64_t k_tiles = 0;
  // Shared memory that a block of threads may take on the device, and whether
  // the decode kernel fits it.
  int block_bytes = 0;
  bool has_decode_kernel = true;

  // Bytes of one tile's parts; multiples of 16.
  int64_t code_bytes = 0;
  int64_t scale_bytes = 0;
  int64_t zero_bytes = 0;

  // Offsets from the start of the layer's memory, and its size. Parts that a
  // layer lacks are empty.
  int64_t row_scales_offset = 0;   // fp32 [padded n]; kRow only
  int64_t bias_offset = 0;         // fp32 [n]
  int64_t permutation_offset = 0;  // int32 [k]
  int64_t codebook_offset = 0;     // fp32 [2^bits], divided by a power of two
  int64_t total_bytes = 0;         // tiles are at offset 0

  int64_t tile_bytes() const { return code_bytes + scale_bytes + zero_bytes; }
  int64_t stage_bytes() const { return tile_bytes() * tile_config.n_tiles; }
  int64_t tiles_bytes() const {
    return stage_bytes() * k_tiles * tile_config.n_blocks;
  }
  int64_t padded_n() const {
    return tile_config.n_blocks * tile_config.n_tiles * kTileRows;
  }
  int64_t padded_k() const { return k_tiles * kTileColumns; }
};

// The layer's format and the bytes of a tile's parts: all that does not depend
// on a device. Errors: INVALID_ARGUMENT (shape below 1 or beyond 2^50
// elements), UNIMPLEMENTED (bits, group size or scales that no kernel reads).
absl::StatusOr<TileLayout> DescribeTiles(const WeightsShape& shape);

// Sets the offsets of the layer's parts; tile_config is set before.
void PlaceParts(const WeightsShape& shape, TileLayout& layout);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAYOUT_TILE_LAYOUT_H_
