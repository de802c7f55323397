// SPDX-License-Identifier: Apache-2.0
//
// 4-bit codes minus 8 times many rows of Q8_1 activations on AMX: a chunk of
// two tiles of weights is decoded into the first cache once and multiplied with
// strips of all rows, two by two. Both operands are integers that bf16 holds,
// so that tiles of bf16 pairs give a block's dots exactly, and in fp32, as its
// scales need them. Intrinsics and instructions only, nothing shared with files
// compiled for other instruction sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/amx_tiles.h"
#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/quant_pairs_avx512.h"
#include "kernels/cpu/microkernels/tile_scales_avx512.h"

namespace qgemm::cpu {
namespace {

// Rows from which this is faster than products of bytes by vectors. Measured.
constexpr int kLeastRows = 32;
constexpr int kMostRows = 256;
// Tiles that pass over a chunk of all rows while it stays in the second cache.
constexpr int kMostTiles = 8;
constexpr int kGroupRows = 2 * kStripRows;
constexpr int kPanelTiles = 2;
// Blocks whose dots are scaled at once. Measured 2, 4 and 8: more of them crowd
// out activations.
constexpr int kSetBlocks = 2;
static_assert(kChunkBlocks % kSetBlocks == 0, "a set lies in one chunk");
// Floats between dots of tiles, so that they do not fall on one cache set.
constexpr int kGap = 32;

// Tiles: 0 to 3 the sums of two strips and the panel's first tile, then of
// both and its second one.
constexpr int kActivationTile = 4;
constexpr int kWeightTile = 6;

// A chunk of two tiles of weights.
struct alignas(64) Panel {
  uint8_t weights[kPanelTiles][kChunkBlocks][kTileBytes];
  float scales[kPanelTiles][kChunkBlocks][kTileRows];
};

// Dots of a group of rows with both tiles.
struct alignas(64) GroupDots {
  float tiles[kPanelTiles][kGroupRows * kTileRows + kGap];
};

// bf16 of -8 to 7, twice.
__m512i IntegerCodebook() {
  alignas(64) uint16_t entries[32];
  for (int i = 0; i < 32; ++i) {
    const float entry = static_cast<float>(i % 16 - 8);
    uint32_t bits;
    __builtin_memcpy(&bits, &entry, sizeof(bits));
    entries[i] = static_cast<uint16_t>(bits >> 16);
  }
  return _mm512_load_si512(entries);
}

// Decodes the chunk from `first` on into tile `tile` of the panel.
void DecodeTile(const TileArgs& args, int64_t first, int blocks, int tile,
                Panel& panel) {
  const __m512i codebook = IntegerCodebook();
  for (int block = 0; block < blocks; ++block) {
    uint8_t* weights = panel.weights[tile][block];
    const auto store = [&](int pair, __m512i index)
        __attribute__((always_inline)) {
      _mm512_store_si512(weights + 64 * pair,
                         _mm512_permutexvar_epi16(index, codebook));
    };
    VisitPairs<4, false>(args, first + block, store);
    _mm512_store_ps(panel.scales[tile][block],
                    LoadScales(args, (first + block) >> args.group_shift));
  }
}

template <int kSum, int kA, int kB>
QGEMM_INLINE void MultiplyNew(float* stored) {
  StoreTile<kSum>(stored);
  ZeroTile<kSum>();
  MultiplyTiles<kSum, kA, kB>();
}

// Dots of number `block` of the panel with a group of rows, whose parts start
// at `a`. The tiles' dots so far, of the block before, go to `stored`.
template <int kTiles, int kStrips>
QGEMM_INLINE void MultiplyBlock(const Panel& panel, int block,
                                const uint16_t* a, int64_t part_block,
                                GroupDots& stored) {
  constexpr int kSecond = kStripRows * kTileRows;
  const uint16_t* second = a + kStripRows * kBlockElements;
  LoadTile<kActivationTile>(a);
  LoadTile<kWeightTile>(panel.weights[0][block]);
  MultiplyNew<0, kActivationTile, kWeightTile>(stored.tiles[0]);
  PrefetchStrip(a + part_block);
  if constexpr (kStrips == 2) {
    LoadTile<kActivationTile + 1>(second);
    MultiplyNew<1, kActivationTile + 1, kWeightTile>(stored.tiles[0] + kSecond);
    PrefetchStrip(second + part_block);
  }
  if constexpr (kTiles == 2) {
    LoadTile<kWeightTile + 1>(panel.weights[1][block]);
    MultiplyNew<2, kActivationTile, kWeightTile + 1>(stored.tiles[1]);
  }
  if constexpr (kTiles == 2 && kStrips == 2) {
    MultiplyNew<3, kActivationTile + 1, kWeightTile + 1>(stored.tiles[1] +
                                                         kSecond);
  }
}

// Stores the dots of rows from the second strip on, or of all.
template <int kTiles>
void StoreDots(bool all, GroupDots& stored) {
  constexpr int kSecond = kStripRows * kTileRows;
  StoreTile<1>(stored.tiles[0] + kSecond);
  if constexpr (kTiles == 2) StoreTile<3>(stored.tiles[1] + kSecond);
  if (!all) return;
  StoreTile<0>(stored.tiles[0]);
  if constexpr (kTiles == 2) StoreTile<2>(stored.tiles[1]);
}

// A set of blocks of a group of rows.
struct Work {
  int blocks = 0;  // kSetBlocks or 1; 0: nothing
  int first = 0;   // of them in the panel
  int rows = 0;
  bool starts = false;  // a chunk
  bool ends = false;
  const uint16_t* a = nullptr;  // parts of the first block
  float* sums = nullptr;        // of its rows and the panel's first tile
  GroupDots* dots = nullptr;    // of each block
};

// Scales dots of kBlocks blocks and of rows [begin, end) and adds them to the
// rows' chains, or these to the sums at a chunk's end.
template <int kTiles, int kBlocks>
QGEMM_INLINE void ScaleRows(const TileArgs& args, const Panel& panel,
                            const Work& work, int begin, int end,
                            GroupDots& chains) {
#pragma GCC unroll 2
  for (int tile = 0; tile < kTiles; ++tile) {
    __m512 scales[kBlocks];
    const float* d8[kBlocks];
#pragma GCC unroll 2
    for (int i = 0; i < kBlocks; ++i) {
      scales[i] = _mm512_load_ps(panel.scales[tile][work.first + i]);
      d8[i] = reinterpret_cast<const float*>(work.a + i * args.part_block +
                                             args.part_rows * kBlockElements);
    }
    float* sums = work.sums + tile * args.rows * kTileRows;
    for (int r = begin; r < end; ++r) {
      float* target = chains.tiles[tile] + r * kTileRows;
      __m512 chain = work.starts ? _mm512_setzero_ps() : _mm512_load_ps(target);
#pragma GCC unroll 2
      for (int i = 0; i < kBlocks; ++i) {
        const float* dots = work.dots[i].tiles[tile] + r * kTileRows;
        chain = _mm512_fmadd_ps(
            _mm512_load_ps(dots),
            _mm512_mul_ps(scales[i], _mm512_set1_ps(d8[i][r])), chain);
      }
      if (work.ends) {
        target = sums + r * kTileRows;
        chain = _mm512_add_ps(_mm512_loadu_ps(target), chain);
      }
      _mm512_storeu_ps(target, chain);
    }
  }
}

// Part `part` of `parts` of a set's scaling.
template <int kTiles>
QGEMM_INLINE void ScalePart(const TileArgs& args, const Panel& panel,
                            const Work& work, int part, int parts,
                            GroupDots& chains) {
  const int begin = work.rows * part / parts;
  const int end = work.rows * (part + 1) / parts;
  if (work.blocks == kSetBlocks) {
    ScaleRows<kTiles, kSetBlocks>(args, panel, work, begin, end, chains);
  } else if (work.blocks == 1) {
    ScaleRows<kTiles, 1>(args, panel, work, begin, end, chains);
  }
}

// Multiplies one set and meanwhile scales the one before, whose dots have
// reached the cache.
template <int kTiles, int kStrips>
QGEMM_INLINE void Step(const TileArgs& args, const Panel& panel,
                       const Work& next, const Work& last, GroupDots& chains) {
  GroupDots* stored = last.dots + (last.blocks == 0 ? 0 : last.blocks - 1);
  for (int i = 0; i < next.blocks; ++i) {
    MultiplyBlock<kTiles, kStrips>(panel, next.first + i,
                                   next.a + i * args.part_block,
                                   args.part_block, *stored);
    stored = next.dots + i;
    ScalePart<kTiles>(args, panel, last, i, next.blocks, chains);
  }
}

// The chunk of the layer that a panel holds.
struct Chunk {
  int64_t begin;
  int blocks;
};

// Adds the panel's products with all rows to `sums`, those of its first tile.
template <int kTiles>
void MultiplyPanel(const TileArgs& args, const Panel& panel, Chunk chunk,
                   float* sums) {
  GroupDots dots[2][kSetBlocks];
  GroupDots chains;
  Work last;
  last.dots = dots[1];
  int turn = 0;
  for (int r = 0; r < args.rows; r += kGroupRows) {
    Work next;
    next.rows = args.rows - r < kGroupRows ? args.rows - r : kGroupRows;
    next.sums = sums + r * kTileRows;
    if (next.rows <= kStripRows && last.rows > kStripRows) {
      StoreDots<kTiles>(false, last.dots[last.blocks - 1]);
    }
    const uint16_t* a =
        args.parts +
        (r / kGroupRows * args.blocks + chunk.begin) * args.part_block;
    for (int block = 0; block < chunk.blocks; block += next.blocks) {
      next.blocks = chunk.blocks - block < kSetBlocks ? 1 : kSetBlocks;
      next.first = block;
      next.a = a + block * args.part_block;
      next.starts = block == 0;
      next.ends = block + next.blocks == chunk.blocks;
      next.dots = dots[turn];
      turn ^= 1;
      if (next.rows <= kStripRows) {
        Step<kTiles, 1>(args, panel, next, last, chains);
      } else {
        Step<kTiles, 2>(args, panel, next, last, chains);
      }
      last = next;
    }
  }
  StoreDots<kTiles>(true, last.dots[last.blocks - 1]);
  ScalePart<kTiles>(args, panel, last, 0, 1, chains);
}

void MultiplyChunk(const TileArgs& args, Chunk chunk, Panel& panel) {
  for (int tile = 0; tile < args.tiles; tile += kPanelTiles) {
    const int count =
        args.tiles - tile < kPanelTiles ? args.tiles - tile : kPanelTiles;
    for (int i = 0; i < count; ++i) {
      TileArgs one = args;
      one.codes += (tile + i) * args.next_codes;
      one.scales += (tile + i) * args.next_scales;
      DecodeTile(one, chunk.begin, chunk.blocks, i, panel);
    }
    float* sums = args.sums + int64_t{tile} * args.rows * kTileRows;
    if (count == 1) {
      MultiplyPanel<1>(args, panel, chunk, sums);
    } else {
      MultiplyPanel<kPanelTiles>(args, panel, chunk, sums);
    }
  }
}

void Run(const TileArgs* args) {
  Panel panel;
  for (int64_t i = 0; i < int64_t{args->tiles} * args->rows; ++i) {
    _mm512_storeu_ps(args->sums + i * kTileRows, _mm512_setzero_ps());
  }
  ConfigureTiles<kWeightTile>(kStripRows);
  for (int64_t begin = 0; begin < args->blocks; begin += kChunkBlocks) {
    const int64_t left = args->blocks - begin;
    const int blocks =
        static_cast<int>(left < kChunkBlocks ? left : kChunkBlocks);
    MultiplyChunk(*args, {begin, blocks}, panel);
  }
  ReleaseTiles();
}

constexpr Microkernel kRows[] = {{"w4a8_256x16_amx", kFamilyW4A8, 4, 0,
                                  kMostRows, Run, kLeastRows, kFormParts,
                                  kGroupRows, kMostTiles}};

}  // namespace

MicrokernelRows PanelW4A8AmxRows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
