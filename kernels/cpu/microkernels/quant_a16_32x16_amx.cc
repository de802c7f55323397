// SPDX-License-Identifier: Apache-2.0
//
// Codes of 2 to 5 bits times bf16 parts of 16-bit activations on AMX: blocks
// are decoded into tiles of bf16 pairs, a tile of sums is scaled a block at a
// time. Intrinsics and instructions only, nothing shared with files compiled
// for other instruction sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/quant_codes_avx512.h"
#include "kernels/cpu/microkernels/tile_scales_avx512.h"

namespace qgemm::cpu {
namespace {

constexpr int kTileBytes = 1024;
constexpr int kStripRows = 16;  // activation rows of a tile
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
// Flush to zero and denormals are zero, as in the tile unit.
constexpr unsigned kFlushBits = 0x8040;

// Tiles. Sums, activations and weights have two each, which blocks use in
// turn, so that one block's loads do not wait for another's products.
constexpr int kSumTile = 0;     // and 1: the second strip; 2, 3: odd blocks
constexpr int kHighTile = 4;    // high parts of activations, then low ones
constexpr int kWeightTile = 6;  // high parts of weights, then low ones

struct TileConfig {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

template <int kTile>
QGEMM_INLINE void LoadTile(const void* from) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(from), "r"(int64_t{64}), "i"(kTile),
                 "m"(*static_cast<const uint8_t(*)[kTileBytes]>(from)));
}

template <int kTile>
QGEMM_INLINE void StoreTile(void* to) {
  asm volatile("tilestored %%tmm%c3, (%1,%2,1)"
               : "=m"(*static_cast<uint8_t(*)[kTileBytes]>(to))
               : "r"(to), "r"(int64_t{64}), "i"(kTile));
}

template <int kTile>
QGEMM_INLINE void ZeroTile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

template <int kSum, int kA, int kB>
QGEMM_INLINE void MultiplyTiles() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
               :
               : "i"(kSum), "i"(kA), "i"(kB));
}

void ConfigureTiles(int strip_rows) {
  alignas(64) TileConfig config = {};
  config.palette = 1;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = 64;
    config.rows[tile] = tile < kWeightTile ? strip_rows : 16;
  }
  asm volatile("ldtilecfg %0" : : "m"(config));
}

// A block's weights: [16 pairs of columns][16 rows][2] bf16.
struct alignas(64) WeightTiles {
  uint8_t high[kTileBytes];
  uint8_t low[kTileBytes];
};

template <int kTableParts>
struct Codebook {
  __m512i high;
  __m512i low;
};

// One pair of codes a row, in the low bits of the halves of `index`.
template <int kTableParts>
QGEMM_INLINE void StorePair(int pair, __m512i index,
                            const Codebook<kTableParts>& codebook,
                            WeightTiles& tiles) {
  _mm512_store_si512(tiles.high + 64 * pair,
                     _mm512_permutexvar_epi16(index, codebook.high));
  if constexpr (kTableParts == 2) {
    _mm512_store_si512(tiles.low + 64 * pair,
                       _mm512_permutexvar_epi16(index, codebook.low));
  }
}

// A group's zeros, in both halves of each word.
QGEMM_INLINE __m512i LoadZeroCodes(const TileArgs& args, int64_t block) {
  const uint8_t* zeros = args.zeros + (block >> args.group_shift) * kTileRows;
  const __m512i words = _mm512_cvtepu8_epi32(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(zeros)));
  return _mm512_or_si512(words, _mm512_slli_epi32(words, 16));
}

template <int kBits, bool kZeros>
QGEMM_INLINE __m512i IndexOf(__m512i moved, __m512i zeros) {
  if constexpr (kZeros) {
    const __m512i code = _mm512_set1_epi16((1 << kBits) - 1);
    return _mm512_sub_epi16(_mm512_and_si512(moved, code), zeros);
  }
  return moved;
}

template <int kBits, bool kZeros, int kTableParts>
QGEMM_INLINE void DecodeBlock(const TileArgs& args, int64_t block,
                              const Codebook<kTableParts>& codebook,
                              WeightTiles& tiles) {
  constexpr int kPerHalf = 16 / kBits;
  const __m512i zeros =
      kZeros ? LoadZeroCodes(args, block) : _mm512_setzero_si512();
  const uint8_t* codes = args.codes + block * (64 * kBits);
  __m512i words[kBits];
#pragma GCC unroll 5
  for (int w = 0; w < kBits; ++w) {
    words[w] = _mm512_loadu_si512(codes + 64 * w);
    _mm_prefetch(reinterpret_cast<const char*>(codes) + kPrefetchBytes + 64 * w,
                 _MM_HINT_T0);
#pragma GCC unroll 8
    for (int j = 0; j < kPerHalf; ++j) {
      const __m512i moved = _mm512_srli_epi32(words[w], kBits * j);
      StorePair(w * kPerHalf + j, IndexOf<kBits, kZeros>(moved, zeros),
                codebook, tiles);
    }
  }
  if constexpr (kPerHalf * kBits < 16) {
    StorePair(15, SpareCodes<kBits>(words), codebook, tiles);
  }
}

// Sums of up to 16 activation rows, whose parts start at `a`.
template <int kSum, int kTableParts, int kActivationParts>
QGEMM_INLINE void MultiplyStrip(const uint16_t* a, int64_t low_offset,
                                void* sums) {
  ZeroTile<kSum>();
  LoadTile<kHighTile>(a);
  MultiplyTiles<kSum, kHighTile, kWeightTile>();
  if constexpr (kTableParts == 2) {
    MultiplyTiles<kSum, kHighTile, kWeightTile + 1>();
  }
  if constexpr (kActivationParts == 2) {
    LoadTile<kHighTile + 1>(a + low_offset);
    MultiplyTiles<kSum, kHighTile + 1, kWeightTile>();
  }
  StoreTile<kSum>(sums);
}

// One block of all rows; `kFirst` is the first of its two tiles of sums.
template <int kFirst, int kTableParts, int kActivationParts>
QGEMM_INLINE void MultiplyBlock(const TileArgs& args, int64_t block,
                                const WeightTiles& tiles, float* sums) {
  const uint16_t* a = args.parts + block * args.part_block;
  const int64_t low_offset = args.part_rows * kBlockElements;
  LoadTile<kWeightTile>(tiles.high);
  if constexpr (kTableParts == 2) LoadTile<kWeightTile + 1>(tiles.low);
  MultiplyStrip<kFirst, kTableParts, kActivationParts>(a, low_offset, sums);
  if (args.rows <= kStripRows) return;
  MultiplyStrip<kFirst + 1, kTableParts, kActivationParts>(
      a + kStripRows * kBlockElements, low_offset,
      sums + kStripRows * kTileRows);
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

// The layer's last blocks, fewer than a group.
void AddShortGroup(const TileArgs& args, int64_t first, PendingSums& pending) {
  switch (args.blocks - first) {
    case 1:
      return AddGroup<1>(args, first, pending);
    case 2:
      return AddGroup<2>(args, first, pending);
    case 3:
      return AddGroup<3>(args, first, pending);
  }
}

template <int kBits, bool kZeros, int kTableParts, int kActivationParts>
void MultiplyAll(const TileArgs& args) {
  WeightTiles slots[kSlots];
  PendingSums pending;
  Codebook<kTableParts> codebook;
  codebook.high = _mm512_loadu_si512(args.table_high);
  if constexpr (kTableParts == 2) {
    codebook.low = _mm512_loadu_si512(args.table_low);
  }
  const auto decode = [&](int64_t block) __attribute__((always_inline)) {
    if (block >= args.blocks) return;
    DecodeBlock<kBits, kZeros>(args, block, codebook,
                               slots[block & (kSlots - 1)]);
  };
  for (int64_t block = 0; block < kAhead; ++block) decode(block);
  for (int64_t block = 0; block < args.blocks; ++block) {
    decode(block + kAhead);
    const WeightTiles& tiles = slots[block & (kSlots - 1)];
    const int place = block & (kGroupBlocks - 1);
    if (place % 2 == 0) {
      MultiplyBlock<kSumTile, kTableParts, kActivationParts>(
          args, block, tiles, pending.blocks[place]);
    } else {
      MultiplyBlock<kSumTile + 2, kTableParts, kActivationParts>(
          args, block, tiles, pending.blocks[place]);
    }
    if (place == kGroupBlocks - 1) {
      AddGroup<kGroupBlocks>(args, block - place, pending);
    }
  }
  AddShortGroup(args, args.blocks & -kGroupBlocks, pending);
}

template <int kBits, bool kZeros, int kTableParts, int kActivationParts>
void RunParts(const TileArgs* args) {
  const unsigned control = _mm_getcsr();
  _mm_setcsr(control | kFlushBits);
  for (int r = 0; r < args->rows; ++r) {
    _mm512_storeu_ps(args->sums + r * kTileRows, _mm512_setzero_ps());
  }
  ConfigureTiles(args->rows < kStripRows ? args->rows : kStripRows);
  MultiplyAll<kBits, kZeros, kTableParts, kActivationParts>(*args);
  asm volatile("tilerelease");
  _mm_setcsr(control);
}

template <int kBits, bool kZeros>
void RunSplit(const TileArgs* args) {
  if (args->table_low == nullptr) return RunParts<kBits, kZeros, 1, 2>(args);
  return RunParts<kBits, kZeros, 2, 2>(args);
}

void SplitRow(const RowParts* split) {
  const __m512i pick = _mm512_loadu_si512(split->pick);
  const __m512i high_bits = _mm512_set1_epi32(-0x10000);
  for (int64_t block = 0; block < split->blocks; ++block) {
    const float* from = split->row + block * kBlockElements;
    const __m512 a = _mm512_loadu_ps(from);
    const __m512 b = _mm512_loadu_ps(from + 16);
    const int64_t to = block * split->part_block;
    _mm512_storeu_si512(split->high + to,
                        _mm512_permutex2var_epi16(_mm512_castps_si512(a), pick,
                                                  _mm512_castps_si512(b)));
    if (split->low == nullptr) continue;
    const auto rest = [high_bits](__m512 x) {
      const __m512i high = _mm512_and_si512(_mm512_castps_si512(x), high_bits);
      return _mm512_castps_si512(_mm512_sub_ps(x, _mm512_castsi512_ps(high)));
    };
    _mm512_storeu_si512(split->low + to,
                        _mm512_permutex2var_epi16(rest(a), pick, rest(b)));
  }
}

#define QGEMM_ROW(bits, suffix, zeros, has_zeros)                     \
  {"w" #bits "abf16" suffix "_32x16_amx",                             \
   kFamilyQuantABFloat16,                                             \
   bits,                                                              \
   has_zeros,                                                         \
   kMostRows,                                                         \
   RunParts<bits, zeros, 1, 1>,                                       \
   2},                                                                \
  {                                                                   \
    "w" #bits "af16" suffix "_32x16_amx", kFamilyQuantAFloat16, bits, \
        has_zeros, kMostRows, RunSplit<bits, zeros>, 1                \
  }

constexpr Microkernel kRows[] = {
    QGEMM_ROW(2, "", false, 0), QGEMM_ROW(3, "", false, 0),
    QGEMM_ROW(4, "", false, 0), QGEMM_ROW(5, "", false, 0),
    QGEMM_ROW(4, "z", true, 1)};

}  // namespace

MicrokernelRows QuantA16AmxRows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

SplitRowFunction AmxSplitRow() { return SplitRow; }

}  // namespace qgemm::cpu
