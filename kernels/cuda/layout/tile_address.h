// SPDX-License-Identifier: Apache-2.0
//
// The index arithmetic of tile_layout.h, for host and device alike: from a
// code's row and column to its bits, and the words that one lane owns.
// Knows no CUDA header; kernels and tests include the same functions.

#ifndef QGEMM_KERNELS_CUDA_LAYOUT_TILE_ADDRESS_H_
#define QGEMM_KERNELS_CUDA_LAYOUT_TILE_ADDRESS_H_

#include <cstdint>

#include "kernels/cuda/layout/tile_layout.h"

namespace qgemm::cuda {

// A tile's codes are owned by halves of lanes: 32 codes in BitsOf(codes) words
// that hold nothing else. `codes` is TileLayout::codes.
inline constexpr int kLanesPerTile = 32;
inline constexpr int kHalvesPerTile = 2 * kLanesPerTile;
inline constexpr int kPairsPerHalf = 16;
inline constexpr int kMaxWordsPerHalf = 5;

// Lane `lane`'s half `half` (q) of a tile.
struct LaneHalf {
  int lane;
  int half;
};

// A code within a tile: who owns it, and which of the owner's pairs it is in.
struct CodePlace {
  LaneHalf owner;
  int pair;     // p, 0 to 15
  int element;  // h, 0 or 1
};

// row is 0 to 15 and column 0 to 127, within the tile.
QGEMM_HOST_DEVICE CodePlace PlaceOfCode(int row, int column) {
  CodePlace place;
  place.owner.lane = (row & 7) * 4 + (column >> 1 & 3);
  place.owner.half = column >> 6;
  place.pair = (column >> 5 & 1) * 8 + (column >> 3 & 3) * 2 + (row >> 3);
  place.element = column & 1;
  return place;
}

QGEMM_HOST_DEVICE int RowOfCode(const CodePlace& place) {
  return (place.owner.lane >> 2) + (place.pair & 1) * 8;
}

QGEMM_HOST_DEVICE int ColumnOfCode(const CodePlace& place) {
  return place.owner.half * 64 + (place.pair >> 3) * 32 +
         (place.pair >> 1 & 3) * 8 + (place.owner.lane & 3) * 2 + place.element;
}

// The offset of word `word` (0 to BitsOf(codes) - 1) of a half, in bytes from
// the start of the tile's codes.
QGEMM_HOST_DEVICE int WordOffset(int codes, LaneHalf owner, int word) {
  if (codes <= 2) return 16 * owner.lane + 8 * owner.half + 4 * word;
  if (codes == 3) {
    const int of_lane = 3 * owner.half + word;
    return of_lane < 4 ? 16 * owner.lane + 4 * of_lane
                       : 512 + 8 * owner.lane + 4 * (of_lane - 4);
  }
  if (word == 4) return 1024 + 8 * owner.lane + 4 * owner.half;
  return 512 * owner.half + 16 * owner.lane + 4 * word;
}

// Bit `bit` of a word of the half's.
struct BitPlace {
  int word;
  int bit;
};

// The place of bit `index` (0 to BitsOf(codes) - 1) of a code among its owner's
// words. A ternary code's are those of its value in two's complement.
QGEMM_HOST_DEVICE BitPlace BitOfCode(int codes, int pair, int element,
                                     int index) {
  if (codes == kTernaryCodes) {
    return {pair >> 3, (pair & 7) * 2 + element * 16 + index};
  }
  if (codes == 2) {
    return {pair >> 3,
            (pair >> 1 & 3) * 8 + (pair & 1) * 4 + element * 2 + index};
  }
  if (codes == 3) {
    const int in_pair = 3 * element + index;
    if (pair < 12) return {pair >> 2, (pair & 3) * 8 + in_pair};
    return {in_pair >> 1, (pair - 12) * 8 + 6 + (in_pair & 1)};
  }
  if (codes == kNumberCodes) {
    return {pair >> 2, (pair & 3) * 4 + element * 16 + index};
  }
  if (index == 4) return {4, (18 * pair + (element == 0 ? 7 : 16)) & 31};
  return {pair >> 2, (pair & 3) * 8 + element * 4 + index};
}

// Sets the code's bits in `words`, where they are zero. A compiler that knows
// codes, pair and element leaves shifts by constants.
QGEMM_HOST_DEVICE void AddCode(int codes, int pair, int element, uint32_t code,
                               uint32_t* words) {
  if (codes <= 2 || (codes == 3 && pair < 12)) {
    const BitPlace first = BitOfCode(codes, pair, element, 0);
    const uint32_t kept = codes == kTernaryCodes ? (code - 1) & 3 : code;
    words[first.word] |= kept << first.bit;
    return;
  }
  if (codes == 3) {
    for (int index = 0; index < 3; ++index) {
      const BitPlace place = BitOfCode(codes, pair, element, index);
      words[place.word] |= (code >> index & 1) << place.bit;
    }
    return;
  }
  const BitPlace first = BitOfCode(codes, pair, element, 0);
  words[first.word] |= (code & 15) << first.bit;
  if (codes != 5) return;
  const BitPlace fifth = BitOfCode(codes, pair, element, 4);
  words[fifth.word] |= (code >> 4 & 1) << fifth.bit;
}

// The code that AddCode set.
QGEMM_HOST_DEVICE uint32_t CodeIn(int codes, int pair, int element,
                                  const uint32_t* words) {
  const BitPlace first = BitOfCode(codes, pair, element, 0);
  const uint32_t kept = words[first.word] >> first.bit;
  if (codes == kTernaryCodes) return (kept + 1) & 3;
  if (codes == 2) return kept & 3;
  if (codes == 3 && pair < 12) return kept & 7;
  if (codes == 3) {
    uint32_t code = 0;
    for (int index = 0; index < 3; ++index) {
      const BitPlace place = BitOfCode(codes, pair, element, index);
      code |= (words[place.word] >> place.bit & 1) << index;
    }
    return code;
  }
  const uint32_t low = kept & 15;
  if (codes != 5) return low;
  const BitPlace fifth = BitOfCode(codes, pair, element, 4);
  return low | (words[fifth.word] >> fifth.bit & 1) << 4;
}

// A tile of the layer. Row tiles count over all row blocks.
struct TileIndex {
  int64_t n_tile;
  int64_t k_tile;
};

QGEMM_HOST_DEVICE int64_t StageOffset(const TileLayout& layout,
                                      TileIndex tile) {
  const int64_t block = tile.n_tile / layout.tile_config.n_tiles;
  return (block * layout.k_tiles + tile.k_tile) * layout.tile_config.n_tiles *
         (layout.code_bytes + layout.scale_bytes + layout.zero_bytes);
}

// Offsets of a tile's parts, in bytes from the start of the layer's memory.
QGEMM_HOST_DEVICE int64_t CodesOffset(const TileLayout& layout,
                                      TileIndex tile) {
  return StageOffset(layout, tile) +
         tile.n_tile % layout.tile_config.n_tiles * layout.code_bytes;
}

QGEMM_HOST_DEVICE int64_t ScalesOffset(const TileLayout& layout,
                                       TileIndex tile) {
  return StageOffset(layout, tile) +
         layout.tile_config.n_tiles * layout.code_bytes +
         tile.n_tile % layout.tile_config.n_tiles * layout.scale_bytes;
}

QGEMM_HOST_DEVICE int64_t ZerosOffset(const TileLayout& layout,
                                      TileIndex tile) {
  return StageOffset(layout, tile) +
         layout.tile_config.n_tiles * (layout.code_bytes + layout.scale_bytes) +
         tile.n_tile % layout.tile_config.n_tiles * layout.zero_bytes;
}

// The index of a scale, or zero, among its tile's: `row` is 0 to 15, `group`
// 0 to groups - 1, within the tile.
QGEMM_HOST_DEVICE int GroupIndex(int groups, int row, int group) {
  return 2 * ((row & 7) * groups + group) + (row >> 3);
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAYOUT_TILE_ADDRESS_H_
