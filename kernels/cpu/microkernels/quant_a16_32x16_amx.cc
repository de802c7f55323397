// SPDX-License-Identifier: Apache-2.0
//
// Codes of 2 to 5 bits times bf16 parts of 16-bit activations on AMX: blocks
// are decoded into tiles of bf16 pairs, a tile of sums is scaled a block at a
// time. Intrinsics and instructions only, nothing shared with files compiled
// for other instruction sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/amx_tiles.h"
#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/quant_pairs_avx512.h"
#include "kernels/cpu/microkernels/tile_scales_avx512.h"

namespace qgemm::cpu {
namespace {

constexpr int kMostRows = 2 * kStripRows;
// Blocks that decoding is ahead of multiplication by: stores of a tile reach
// the cache before it is loaded. Measured 1 to 4: 2 and 3 are the fastest.
constexpr int kAhead = 3;
constexpr int kSlots = 4;  // of decoded blocks: a power of two above kAhead
// Blocks whose sums are scaled at once. Measured 1, 2, 4 and 8: with fewer the
// vector unit waits for tiles, with more the sums crowd out activations.
constexpr int kGroupBlocks = 4;
static_assert(kChunkBlocks % kGroupBlocks == 0,
              "a group lies in one chain of blocks");

// Tiles. Blocks use the two pairs of tiles of sums in turn, so that one is
// stored while the other gets its products.
constexpr int kSumTile = 0;  // and 1: the second strip; 2, 3: odd blocks
// High parts of activations and of weights, each before low ones.
constexpr int kHighTile = kActivationTile;

// A block's weights: [16 pairs of columns][16 rows][2] bf16.
struct alignas(64) WeightTiles {
  uint8_t high[kTileBytes];
  uint8_t low[kTileBytes];
};

// One pair of codes a row, in the low bits of the halves of `index`.
template <int kTableParts>
QGEMM_INLINE void StorePair(int pair, __m512i index,
                            const PairCodebook<kTableParts>& codebook,
                            WeightTiles& tiles) {
  _mm512_store_si512(tiles.high + 64 * pair,
                     _mm512_permutexvar_epi16(index, codebook.high));
  if constexpr (kTableParts == 2) {
    _mm512_store_si512(tiles.low + 64 * pair,
                       _mm512_permutexvar_epi16(index, codebook.low));
  }
}

template <int kBits, bool kZeros, int kTableParts>
QGEMM_INLINE void DecodeBlock(const TileArgs& args, int64_t block,
                              const PairCodebook<kTableParts>& codebook,
                              WeightTiles& tiles) {
  const auto store = [&](int pair, __m512i index)
      __attribute__((always_inline)) {
    StorePair(pair, index, codebook, tiles);
  };
  VisitPairs<kBits, kZeros>(args, block, store);
}

// Sums of a strip of activation rows, whose parts start at `a`. Another tile of
// sums, of the block before, is stored meanwhile: a store waits for its
// product.
template <int kSum, int kStored, int kTableParts, int kActivationParts>
QGEMM_INLINE void MultiplyStrip(const TileArgs& args, const uint16_t* a,
                                float* stored) {
  const int64_t low_offset = args.part_rows * kBlockElements;
  ZeroTile<kSum>();
  LoadTile<kHighTile>(a);
  MultiplyTiles<kSum, kHighTile, kWeightTile>();
  if constexpr (kTableParts == 2) {
    MultiplyTiles<kSum, kHighTile, kWeightTile + 1>();
  }
  StoreTile<kStored>(stored);
  if constexpr (kActivationParts == 2) {
    LoadTile<kHighTile + 1>(a + low_offset);
    MultiplyTiles<kSum, kHighTile + 1, kWeightTile>();
  }
  // Measured: two parts, of twice the lines, gain nothing by it.
  if constexpr (kActivationParts == 1) {
    if (args.part_rows >= kStripRows) PrefetchStrip(a + args.part_block);
  }
}

// One block of all rows; `kFirst` is the first of its two tiles of sums, those
// of the block before go to `stored`.
template <int kFirst, int kTableParts, int kActivationParts>
QGEMM_INLINE void MultiplyBlock(const TileArgs& args, int64_t block,
                                const WeightTiles& tiles, float* stored) {
  constexpr int kLast = kFirst ^ 2;
  const uint16_t* a = args.parts + block * args.part_block;
  LoadTile<kWeightTile>(tiles.high);
  if constexpr (kTableParts == 2) LoadTile<kWeightTile + 1>(tiles.low);
  MultiplyStrip<kFirst, kLast, kTableParts, kActivationParts>(args, a, stored);
  if (args.rows <= kStripRows) return;
  MultiplyStrip<kFirst + 1, kLast + 1, kTableParts, kActivationParts>(
      args, a + kStripRows * kBlockElements, stored + kStripRows * kTileRows);
}

// Stores what MultiplyBlock left in its tiles.
template <int kFirst>
QGEMM_INLINE void StoreBlock(const TileArgs& args, float* stored) {
  StoreTile<kFirst>(stored);
  if (args.rows <= kStripRows) return;
  StoreTile<kFirst + 1>(stored + kStripRows * kTileRows);
}

// Sums that are not yet in those of rows: blocks of a group, chains of groups.
struct alignas(64) PendingSums {
  float blocks[kGroupBlocks][kMostRows * kTileRows];
  float chains[kMostRows * kTileRows];
};

// Scales the group of kBlocks blocks from `first` on and adds it to the chains
// of all rows, or adds these to the sums at a chunk's or the layer's end.
template <int kBlocks>
QGEMM_INLINE void AddGroup(const TileArgs& args, int64_t first,
                           PendingSums& pending) {
  const bool starts = first % kChunkBlocks == 0;
  const int64_t end = first + kBlocks;
  const bool ends = end % kChunkBlocks == 0 || end == args.blocks;
  __m512 scales[kBlocks];
#pragma GCC unroll 8
  for (int i = 0; i < kBlocks; ++i) {
    scales[i] = LoadScales(args, (first + i) >> args.group_shift);
  }
  const int count = args.rows * kTileRows;
  for (int r = 0; r < count; r += kTileRows) {
    __m512 chain =
        starts ? _mm512_setzero_ps() : _mm512_load_ps(pending.chains + r);
#pragma GCC unroll 8
    for (int i = 0; i < kBlocks; ++i) {
      chain = _mm512_fmadd_ps(_mm512_load_ps(pending.blocks[i] + r), scales[i],
                              chain);
    }
    float* target = pending.chains + r;
    if (ends) {
      target = args.sums + r;
      chain = _mm512_add_ps(_mm512_loadu_ps(target), chain);
    }
    _mm512_storeu_ps(target, chain);
  }
}

// AddGroup of the layer's last blocks.
void AddLastGroup(const TileArgs& args, PendingSums& pending) {
  const int64_t first = (args.blocks - 1) & -kGroupBlocks;
  switch (args.blocks - first) {
    case 1:
      return AddGroup<1>(args, first, pending);
    case 2:
      return AddGroup<2>(args, first, pending);
    case 3:
      return AddGroup<3>(args, first, pending);
    default:
      return AddGroup<kGroupBlocks>(args, first, pending);
  }
}

template <int kBits, bool kZeros, int kTableParts, int kActivationParts>
void MultiplyAll(const TileArgs& args) {
  WeightTiles slots[kSlots];
  PendingSums pending;
  const auto codebook = LoadPairCodebook<kTableParts>(args);
  const auto decode = [&](int64_t block) __attribute__((always_inline)) {
    if (block >= args.blocks) return;
    DecodeBlock<kBits, kZeros>(args, block, codebook,
                               slots[block & (kSlots - 1)]);
  };
  const auto place_of = [](int64_t block) {
    return block & (kGroupBlocks - 1);
  };
  for (int64_t block = 0; block < kAhead; ++block) decode(block);
  for (int64_t block = 0; block < args.blocks; ++block) {
    decode(block + kAhead);
    const WeightTiles& tiles = slots[block & (kSlots - 1)];
    float* stored = pending.blocks[place_of(block - 1)];
    if (block % 2 == 0) {
      MultiplyBlock<kSumTile, kTableParts, kActivationParts>(args, block, tiles,
                                                             stored);
    } else {
      MultiplyBlock<kSumTile + 2, kTableParts, kActivationParts>(args, block,
                                                                 tiles, stored);
    }
    if (block > 0 && place_of(block) == 0) {
      AddGroup<kGroupBlocks>(args, block - kGroupBlocks, pending);
    }
  }
  float* stored = pending.blocks[place_of(args.blocks - 1)];
  if (args.blocks % 2 == 1) {
    StoreBlock<kSumTile>(args, stored);
  } else {
    StoreBlock<kSumTile + 2>(args, stored);
  }
  AddLastGroup(args, pending);
}

template <int kBits, bool kZeros, int kTableParts, int kActivationParts>
void RunParts(const TileArgs* args) {
  const unsigned control = _mm_getcsr();
  _mm_setcsr(control | kFlushBits);
  for (int r = 0; r < args->rows; ++r) {
    _mm512_storeu_ps(args->sums + r * kTileRows, _mm512_setzero_ps());
  }
  ConfigureTiles({args->rows < kStripRows ? args->rows : kStripRows, 64});
  MultiplyAll<kBits, kZeros, kTableParts, kActivationParts>(*args);
  ReleaseTiles();
  _mm_setcsr(control);
}

template <int kBits, bool kZeros>
void RunSplit(const TileArgs* args) {
  if (args->table_low == nullptr) return RunParts<kBits, kZeros, 1, 2>(args);
  return RunParts<kBits, kZeros, 2, 2>(args);
}

#define QGEMM_ROW(bits, suffix, zeros, has_zeros)                             \
  {"w" #bits "abf16" suffix "_32x16_amx",                                     \
   kFamilyQuantABFloat16,                                                     \
   bits,                                                                      \
   has_zeros,                                                                 \
   kMostRows,                                                                 \
   RunParts<bits, zeros, 1, 1>,                                               \
   2,                                                                         \
   kFormParts,                                                                \
   kMostRows},                                                                \
  {                                                                           \
    "w" #bits "af16" suffix "_32x16_amx", kFamilyQuantAFloat16, bits,         \
        has_zeros, kMostRows, RunSplit<bits, zeros>, 1, kFormParts, kMostRows \
  }

constexpr Microkernel kRows[] = {
    QGEMM_ROW(2, "", false, 0), QGEMM_ROW(3, "", false, 0),
    QGEMM_ROW(4, "", false, 0), QGEMM_ROW(5, "", false, 0),
    QGEMM_ROW(4, "z", true, 1)};

}  // namespace

MicrokernelRows QuantA16AmxRows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
