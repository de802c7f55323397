// SPDX-License-Identifier: Apache-2.0
//
// Codes of 2 to 5 bits times bf16 parts of many rows of 16-bit activations on
// AMX, for requests of many rows: scales are multiplied into the weights, so
// that tiles add up blocks by themselves. A chunk of two tiles of weights is
// decoded into the first cache once and multiplied with strips of all rows, two
// by two. Intrinsics and instructions only, nothing shared with files compiled
// for other instruction sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/amx_tiles.h"
#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/quant_pairs_avx512.h"
#include "kernels/cpu/microkernels/tile_scales_avx512.h"

namespace qgemm::cpu {
namespace {

constexpr int kMostRows = 512;
// Tiles that pass over a chunk of all rows while it stays in the second cache.
constexpr int kMostTiles = 8;
constexpr int kGroupRows = 2 * kStripRows;
constexpr int kPanelTiles = 2;
// Blocks that tiles add up in fp32 before the row's sum gets them: 4096
// elements of K.
constexpr int kChainBlocks = 128;

// Blocks of a panel: it fills a third of the first cache, beside the strips.
template <int kParts>
constexpr int kPanelBlocks = 8 / kParts;

// Weights of two tiles, in as many parts as activations.
template <int kParts>
struct alignas(64) Panel {
  uint8_t weights[kParts][kPanelTiles][kPanelBlocks<kParts>][kTileBytes];
};

// Chains of all rows, those of a tile after another.
struct alignas(64) Chains {
  float tiles[kMostTiles][kMostRows * kTileRows];
};
constexpr int kNextStrip = kStripRows * kTileRows;  // from a chain to another
constexpr int kNextTile = kMostRows * kTileRows;

// A pair of weights of each of 16 rows.
struct Pair {
  __m512 even;
  __m512 odd;
};

QGEMM_INLINE __m512i HighBits() { return _mm512_set1_epi32(-0x10000); }

// Makes floats of bf16 pairs.
QGEMM_INLINE Pair Widen(__m512i pairs) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)),
          _mm512_castsi512_ps(_mm512_and_si512(pairs, HighBits()))};
}

// Rounds to bf16, halves away from zero; `x` is far from the largest numbers.
QGEMM_INLINE __m512 Round(__m512 x) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  return _mm512_castsi512_ps(_mm512_and_si512(
      _mm512_add_epi32(_mm512_castps_si512(x), half), HighBits()));
}

// Makes bf16 pairs of rounded weights.
QGEMM_INLINE __m512i Narrow(Pair weights) {
  return _mm512_or_si512(
      _mm512_castps_si512(weights.odd),
      _mm512_srli_epi32(_mm512_castps_si512(weights.even), 16));
}

template <int kTableParts>
QGEMM_INLINE Pair ScaledPair(__m512i index,
                             const PairCodebook<kTableParts>& codebook,
                             __m512 scales) {
  Pair pair = Widen(_mm512_permutexvar_epi16(index, codebook.high));
  if constexpr (kTableParts == 2) {
    const Pair rest = Widen(_mm512_permutexvar_epi16(index, codebook.low));
    pair = {_mm512_add_ps(pair.even, rest.even),
            _mm512_add_ps(pair.odd, rest.odd)};
  }
  return {_mm512_mul_ps(pair.even, scales), _mm512_mul_ps(pair.odd, scales)};
}

// The chunk of the layer that a panel holds.
struct Chunk {
  int64_t begin;
  int blocks;
};

// Decodes one tile's chunk into number `tile` of the panel.
template <int kBits, bool kZeros, int kTableParts, int kParts>
void DecodeChunk(const TileArgs& args, Chunk chunk, int tile,
                 Panel<kParts>& panel) {
  const auto codebook = LoadPairCodebook<kTableParts>(args);
  for (int i = 0; i < chunk.blocks; ++i) {
    const int64_t block = chunk.begin + i;
    const __m512 scales = LoadScales(args, block >> args.group_shift);
    const auto store = [&](int pair, __m512i index)
        __attribute__((always_inline)) {
      const Pair weights = ScaledPair<kTableParts>(index, codebook, scales);
      const Pair high = {Round(weights.even), Round(weights.odd)};
      _mm512_store_si512(panel.weights[0][tile][i] + 64 * pair, Narrow(high));
      if constexpr (kParts == 2) {
        const Pair low = {Round(_mm512_sub_ps(weights.even, high.even)),
                          Round(_mm512_sub_ps(weights.odd, high.odd))};
        _mm512_store_si512(panel.weights[1][tile][i] + 64 * pair, Narrow(low));
      }
    };
    VisitPairs<kBits, kZeros>(args, block, store);
  }
}

// Adds the products of one block's parts to the chains: one of activations,
// whose first strip starts at `a`, one of weights. Chains 0 and 1 are those of
// two strips and the panel's first tile, 2 and 3 of both and its second one.
template <int kTiles, int kStrips, bool kLoadActivations, bool kLoadWeights,
          int kBlocks>
QGEMM_INLINE void MultiplyParts(
    const uint16_t* a,
    const uint8_t (&weights)[kPanelTiles][kBlocks][kTileBytes], int block) {
  if constexpr (kLoadActivations) LoadTile<kActivationTile>(a);
  if constexpr (kLoadWeights) LoadTile<kWeightTile>(weights[0][block]);
  MultiplyTiles<0, kActivationTile, kWeightTile>();
  if constexpr (kStrips == 2) {
    if constexpr (kLoadActivations) {
      LoadTile<kActivationTile + 1>(a + kStripRows * kBlockElements);
    }
    MultiplyTiles<1, kActivationTile + 1, kWeightTile>();
  }
  if constexpr (kTiles == 2) {
    if constexpr (kLoadWeights) LoadTile<kWeightTile + 1>(weights[1][block]);
    MultiplyTiles<2, kActivationTile, kWeightTile + 1>();
  }
  if constexpr (kTiles == 2 && kStrips == 2) {
    MultiplyTiles<3, kActivationTile + 1, kWeightTile + 1>();
  }
}

template <int kStrips>
QGEMM_INLINE void PrefetchStrips(const uint16_t* a) {
  PrefetchStrip(a);
  if constexpr (kStrips == 2) PrefetchStrip(a + kStripRows * kBlockElements);
}

// Number `block` of the panel times a group of rows, whose high parts start at
// `a`. The product of both low parts is left out.
template <int kTiles, int kStrips, int kParts>
QGEMM_INLINE void MultiplyBlock(const TileArgs& args,
                                const Panel<kParts>& panel, int block,
                                const uint16_t* a) {
  const uint16_t* next = a + args.part_block;
  if constexpr (kParts == 2) {
    const int64_t low_offset = args.part_rows * kBlockElements;
    MultiplyParts<kTiles, kStrips, true, true>(a + low_offset, panel.weights[0],
                                               block);
    PrefetchStrips<kStrips>(next + low_offset);
    MultiplyParts<kTiles, kStrips, true, false>(a, panel.weights[0], block);
    PrefetchStrips<kStrips>(next);
    MultiplyParts<kTiles, kStrips, false, true>(a, panel.weights[1], block);
  } else {
    MultiplyParts<kTiles, kStrips, true, true>(a, panel.weights[0], block);
    PrefetchStrips<kStrips>(next);
  }
}

QGEMM_INLINE void ZeroChains() {
  ZeroTile<0>();
  ZeroTile<1>();
  ZeroTile<2>();
  ZeroTile<3>();
}

// `chains` are those of the panel's first tile and a group's first row.
template <int kTiles, int kStrips>
QGEMM_INLINE void LoadChains(const float* chains) {
  LoadTile<0>(chains);
  if constexpr (kStrips == 2) LoadTile<1>(chains + kNextStrip);
  if constexpr (kTiles == 2) LoadTile<2>(chains + kNextTile);
  if constexpr (kTiles == 2 && kStrips == 2) {
    LoadTile<3>(chains + kNextTile + kNextStrip);
  }
}

template <int kTiles, int kStrips>
QGEMM_INLINE void StoreChains(float* chains) {
  StoreTile<0>(chains);
  if constexpr (kStrips == 2) StoreTile<1>(chains + kNextStrip);
  if constexpr (kTiles == 2) StoreTile<2>(chains + kNextTile);
  if constexpr (kTiles == 2 && kStrips == 2) {
    StoreTile<3>(chains + kNextTile + kNextStrip);
  }
}

// Adds the panel's products with the group of rows from `row` on to its chains.
template <int kTiles, int kStrips, int kParts>
void MultiplyGroup(const TileArgs& args, const Panel<kParts>& panel,
                   Chunk chunk, int row, float* chains) {
  const uint16_t* a =
      args.parts +
      (row / kGroupRows * args.blocks + chunk.begin) * args.part_block;
  if (chunk.begin % kChainBlocks == 0) {
    ZeroChains();
  } else {
    LoadChains<kTiles, kStrips>(chains);
  }
  for (int block = 0; block < chunk.blocks; ++block) {
    MultiplyBlock<kTiles, kStrips>(args, panel, block, a);
    a += args.part_block;
  }
  StoreChains<kTiles, kStrips>(chains);
}

template <int kTiles, int kParts>
void MultiplyPanel(const TileArgs& args, const Panel<kParts>& panel,
                   Chunk chunk, int tile, Chains& chains) {
  for (int r = 0; r < args.rows; r += kGroupRows) {
    float* of_group = chains.tiles[tile] + r * kTileRows;
    if (args.rows - r <= kStripRows) {
      MultiplyGroup<kTiles, 1>(args, panel, chunk, r, of_group);
    } else {
      MultiplyGroup<kTiles, 2>(args, panel, chunk, r, of_group);
    }
  }
}

void AddChains(const TileArgs& args, const Chains& chains) {
  const int count = args.rows * kTileRows;
  for (int tile = 0; tile < args.tiles; ++tile) {
    float* sums = args.sums + tile * count;
    for (int i = 0; i < count; i += kTileRows) {
      _mm512_storeu_ps(sums + i,
                       _mm512_add_ps(_mm512_loadu_ps(sums + i),
                                     _mm512_load_ps(chains.tiles[tile] + i)));
    }
  }
}

template <int kBits, bool kZeros, int kTableParts, int kParts>
void MultiplyChunk(const TileArgs& args, Chunk chunk, Panel<kParts>& panel,
                   Chains& chains) {
  for (int tile = 0; tile < args.tiles; tile += kPanelTiles) {
    const int count =
        args.tiles - tile < kPanelTiles ? args.tiles - tile : kPanelTiles;
    for (int i = 0; i < count; ++i) {
      TileArgs one = args;
      one.codes += (tile + i) * args.next_codes;
      one.scales += (tile + i) * args.next_scales;
      one.zeros += (tile + i) * args.next_zeros;
      DecodeChunk<kBits, kZeros, kTableParts>(one, chunk, i, panel);
    }
    if (count == 1) {
      MultiplyPanel<1>(args, panel, chunk, tile, chains);
    } else {
      MultiplyPanel<kPanelTiles>(args, panel, chunk, tile, chains);
    }
  }
}

template <int kBits, bool kZeros, int kTableParts, int kParts>
void RunParts(const TileArgs* args) {
  Panel<kParts> panel;
  Chains chains;
  for (int i = 0; i < args->tiles * args->rows; ++i) {
    _mm512_storeu_ps(args->sums + i * kTileRows, _mm512_setzero_ps());
  }
  ConfigureTiles({args->rows < kStripRows ? args->rows : kStripRows, 64});
  constexpr int kMost = kPanelBlocks<kParts>;
  for (int64_t begin = 0; begin < args->blocks; begin += kMost) {
    const int64_t left = args->blocks - begin;
    const Chunk chunk = {begin, static_cast<int>(left < kMost ? left : kMost)};
    MultiplyChunk<kBits, kZeros, kTableParts>(*args, chunk, panel, chains);
    const int64_t end = begin + chunk.blocks;
    if (end == args->blocks || end % kChainBlocks == 0) {
      AddChains(*args, chains);
    }
  }
  ReleaseTiles();
}

template <int kBits, bool kZeros>
void RunSplit(const TileArgs* args) {
  if (args->table_low == nullptr) return RunParts<kBits, kZeros, 1, 2>(args);
  return RunParts<kBits, kZeros, 2, 2>(args);
}

#define QGEMM_ROW(name, family, bits, has_zeros, run)               \
  {                                                                 \
    name "_512x16_amx", family, bits, has_zeros, kMostRows, run, 1, \
        kFormParts, kGroupRows, kMostTiles                          \
  }
#define QGEMM_ROWS(bits, suffix, zeros, has_zeros)                             \
  QGEMM_ROW("w" #bits "sbf16" suffix, kFamilyScaledABFloat16, bits, has_zeros, \
            (RunParts<bits, zeros, 1, 1>)),                                    \
      QGEMM_ROW("w" #bits "sf16" suffix, kFamilyScaledAFloat16, bits,          \
                has_zeros, (RunSplit<bits, zeros>))

constexpr Microkernel kRows[] = {
    QGEMM_ROWS(2, "", false, 0), QGEMM_ROWS(3, "", false, 0),
    QGEMM_ROWS(4, "", false, 0), QGEMM_ROWS(5, "", false, 0),
    QGEMM_ROWS(4, "z", true, 1)};

}  // namespace

MicrokernelRows ScaledA16AmxRows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
