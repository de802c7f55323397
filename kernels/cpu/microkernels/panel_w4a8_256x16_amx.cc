// SPDX-License-Identifier: Apache-2.0
//
// 4-bit codes minus 8 times many rows of Q8_1 activations on AMX: a chunk of a
// tile of weights is decoded into the first cache once and multiplied with
// strips of all rows, byte by byte. The dots of a strip are scaled while those
// of the next are multiplied, when they have reached the cache. Intrinsics and
// instructions only, nothing shared with files compiled for other instruction
// sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/amx_tiles.h"
#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/tile_scales_avx512.h"

namespace qgemm::cpu {
namespace {

// Rows from which this is faster than products of bytes by vectors. Measured.
constexpr int kLeastRows = 16;
constexpr int kMostRows = 256;
// Tiles that pass over a chunk of all rows while it stays in the second cache.
constexpr int kMostTiles = 8;
// Floats between dots of blocks, so that they do not fall on one cache set.
constexpr int kGap = 16;

// Four bytes of K for each of 16 rows are a row of a tile.
constexpr int kTileWeightRows = kBlockElements / 4;
constexpr int kWeightBytes = kTileWeightRows * 64;

// A chunk of a tile of weights.
struct alignas(64) Panel {
  uint8_t weights[kChunkBlocks][kWeightBytes];
  float scales[kChunkBlocks][kTileRows];
};

// Dots of a strip of rows with a chunk's blocks.
struct alignas(64) StripDots {
  int32_t blocks[kChunkBlocks][kStripRows * kTileRows + kGap];
};

// The chunk of the layer that a panel holds.
struct Chunk {
  int64_t begin;
  int blocks;
};

// The integers of even and of odd nibbles, in the order of `q8`.
void DecodeChunk(const TileArgs& args, Chunk chunk, Panel& panel) {
  const __m512i nibble = _mm512_set1_epi8(15);
  const __m512i eight = _mm512_set1_epi8(8);
  for (int i = 0; i < chunk.blocks; ++i) {
    const int64_t block = chunk.begin + i;
    const uint8_t* codes = args.codes + block * args.block_bytes;
    for (int w = 0; w < kTileWeightRows / 2; ++w) {
      const __m512i words = _mm512_loadu_si512(codes + 64 * w);
      const __m512i even = _mm512_and_si512(words, nibble);
      const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(words, 4), nibble);
      uint8_t* to = panel.weights[i] + 128 * w;
      _mm512_store_si512(to, _mm512_sub_epi8(even, eight));
      _mm512_store_si512(to + 64, _mm512_sub_epi8(odd, eight));
      _mm_prefetch(
          reinterpret_cast<const char*>(codes) + kPrefetchBytes + 64 * w,
          _MM_HINT_T0);
    }
    _mm512_store_ps(panel.scales[i],
                    LoadScales(args, block >> args.group_shift));
  }
}

// A strip of activation rows and a chunk of blocks.
struct Strip {
  const uint16_t* parts = nullptr;  // of the first block
  float* sums = nullptr;
  StripDots* dots = nullptr;
  int rows = 0;
};

// The bytes of one block of a strip, before its scales.
constexpr int kStripBytes = kStripRows * kBlockElements;

// Number `block` of the panel, which is even or odd as kTurn is, times a strip.
// Then the dots of the block before are stored: the new ones are not there yet.
template <int kTurn>
QGEMM_INLINE void MultiplyBlock(const TileArgs& args, const Panel& panel,
                                int block, const Strip& strip) {
  ZeroTile<kTurn>();
  LoadTile<kActivationTile + kTurn>(strip.parts + block * args.part_block,
                                    kBlockElements);
  LoadTile<kWeightTile + kTurn>(panel.weights[block]);
  MultiplyByteTiles<kTurn, kActivationTile + kTurn, kWeightTile + kTurn>();
  if (block > 0) StoreTile<1 - kTurn>(strip.dots->blocks[block - 1]);
}

// Adds a block's dots, scaled, to the chains of a strip's rows.
QGEMM_INLINE void ScaleBlock(const TileArgs& args, const Panel& panel,
                             int block, const Strip& strip,
                             __m512 (&chains)[kStripRows]) {
  const int32_t* dots = strip.dots->blocks[block];
  const float* d8 = reinterpret_cast<const float*>(
      strip.parts + block * args.part_block + kStripBytes / 2);
  const __m512 scales = _mm512_load_ps(panel.scales[block]);
#pragma GCC unroll 16
  for (int r = 0; r < kStripRows; ++r) {
    chains[r] = _mm512_fmadd_ps(
        _mm512_cvtepi32_ps(_mm512_load_si512(dots + r * kTileRows)),
        _mm512_mul_ps(scales, _mm512_set1_ps(d8[r])), chains[r]);
  }
}

// Multiplies strip `next` and meanwhile scales strip `last`, or does either.
template <bool kNext, bool kLast>
void Step(const TileArgs& args, const Panel& panel, int blocks,
          const Strip& next, const Strip& last) {
  __m512 chains[kStripRows];
#pragma GCC unroll 16
  for (int r = 0; r < kStripRows; ++r) chains[r] = _mm512_setzero_ps();
  for (int block = 0; block < blocks; ++block) {
    if constexpr (kNext) MultiplyBlock<0>(args, panel, block, next);
    if constexpr (kLast) ScaleBlock(args, panel, block, last, chains);
    if (++block == blocks) break;
    if constexpr (kNext) MultiplyBlock<1>(args, panel, block, next);
    if constexpr (kLast) ScaleBlock(args, panel, block, last, chains);
  }
  if constexpr (kNext) {
    int32_t* stored = next.dots->blocks[blocks - 1];
    if (blocks % 2 == 1) {
      StoreTile<0>(stored);
    } else {
      StoreTile<1>(stored);
    }
  }
  if constexpr (kLast) {
#pragma GCC unroll 16
    for (int r = 0; r < kStripRows; ++r) {
      if (r == last.rows) break;
      float* sums = last.sums + r * kTileRows;
      _mm512_storeu_ps(sums, _mm512_add_ps(_mm512_loadu_ps(sums), chains[r]));
    }
  }
}

// Adds the panel's products with all rows to `sums`.
void MultiplyPanel(const TileArgs& args, const Panel& panel, Chunk chunk,
                   float* sums) {
  StripDots dots[2];
  Strip last;
  for (int r = 0; r < args.rows; r += kStripRows) {
    const int strip = r / kStripRows;
    Strip next;
    next.parts =
        args.parts + (strip * args.blocks + chunk.begin) * args.part_block;
    next.sums = sums + r * kTileRows;
    next.dots = &dots[strip % 2];
    next.rows = args.rows - r < kStripRows ? args.rows - r : kStripRows;
    if (r == 0) {
      Step<true, false>(args, panel, chunk.blocks, next, last);
    } else {
      Step<true, true>(args, panel, chunk.blocks, next, last);
    }
    last = next;
  }
  Step<false, true>(args, panel, chunk.blocks, last, last);
}

void Run(const TileArgs* args) {
  Panel panel;
  const int64_t tile_sums = int64_t{args->rows} * kTileRows;
  for (int64_t i = 0; i < args->tiles * tile_sums; i += kTileRows) {
    _mm512_storeu_ps(args->sums + i, _mm512_setzero_ps());
  }
  ConfigureTiles({kStripRows, kBlockElements}, {kTileWeightRows, 64});
  for (int64_t begin = 0; begin < args->blocks; begin += kChunkBlocks) {
    const int64_t left = args->blocks - begin;
    const Chunk chunk = {
        begin, static_cast<int>(left < kChunkBlocks ? left : kChunkBlocks)};
    for (int tile = 0; tile < args->tiles; ++tile) {
      TileArgs one = *args;
      one.codes += tile * args->next_codes;
      one.scales += tile * args->next_scales;
      DecodeChunk(one, chunk, panel);
      MultiplyPanel(one, panel, chunk, args->sums + tile * tile_sums);
    }
  }
  ReleaseTiles();
}

constexpr Microkernel kRows[] = {{"w4a8_256x16_amx", kFamilyW4A8, 4, 0,
                                  kMostRows, Run, kLeastRows, kFormParts,
                                  kStripRows, kMostTiles}};

}  // namespace

MicrokernelRows PanelW4A8AmxRows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
