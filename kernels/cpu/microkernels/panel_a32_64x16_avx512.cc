// SPDX-License-Identifier: Apache-2.0
//
// Many rows of fp32 activations on AVX-512: a chunk of one or two tiles is
// decoded into a panel of fp32 in the cache once, then multiplied with groups
// of rows. Intrinsics only, nothing shared with files compiled for other
// instruction sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/dense_weights_avx512.h"
#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/quant_codes_avx512.h"
#include "kernels/cpu/microkernels/tile_scales_avx512.h"

namespace qgemm::cpu {
namespace {

// Rows of a group: with two sums each for either tile, as many as registers
// hold beside weights. One tile would have a load for each multiply-add, which
// is more than two ports take.
constexpr int kGroup = 6;
constexpr int kMostTiles = 2;
constexpr int kMostRows = 64;

// Rows from which a panel is faster than decoding for each 8 rows. Measured.
constexpr int kLeastRows = 24;
constexpr int kLeastRowsOfDense = 32;

constexpr int kPairs = 16;  // of a half of a block

// A chunk of a tile.
struct alignas(64) Panel {
  float weights[kChunkBlocks][2][kPairs][kTileRows];  // without their scales
  float scales[kChunkBlocks][kTileRows];
};

template <int kBits, bool kZeros>
void DecodeCodes(const TileArgs& args, int64_t block, int to, Panel& panel) {
  const Codebook512 codebook = LoadCodebook<kBits>(args.table);
  const int64_t group = block >> args.group_shift;
  const __m512 zeros = kZeros ? LoadZeros(args, group) : _mm512_setzero_ps();
  const auto add = [&](ElementPlace from, int, __m512i index)
      __attribute__((always_inline)) {
    __m512 weights = Decode<kBits>(from, index, codebook);
    if constexpr (kZeros) weights = _mm512_sub_ps(weights, zeros);
    _mm512_store_ps(panel.weights[to][from.half][from.pair], weights);
  };
  VisitCodes<kBits, 1>(args.codes + block * (64 * kBits), add);
  _mm512_store_ps(panel.scales[to], LoadScales(args, group));
}

template <int kFamily>
void DecodeDense(const TileArgs& args, int64_t block, int to, Panel& panel) {
  const uint8_t* elements = args.codes + block * (kBlockElements * 32);
  for (int k = 0; k < kBlockElements; ++k) {
    _mm512_store_ps(panel.weights[to][k % 2][k / 2],
                    LoadWeights<kFamily>(elements + 32 * k));
  }
  _mm512_store_ps(panel.scales[to], _mm512_set1_ps(1));
}

// Sums of kMr rows with each of kTiles tiles.
template <int kTiles, int kMr>
using GroupSums = __m512[kTiles][kMr];

// Adds the products of one half of a block and kMr rows of a group.
template <int kTiles, int kMr>
QGEMM_INLINE void AddHalf(const Panel (&panels)[kMostTiles], int block,
                          int half, const float* a,
                          GroupSums<kTiles, kMr>& sums) {
// All pairs of a half are 6 KB of code, 2 % slower on an Ice Lake.
#pragma GCC unroll 4
  for (int pair = 0; pair < kPairs; ++pair) {
    __m512 weights[kTiles];
#pragma GCC unroll 2
    for (int tile = 0; tile < kTiles; ++tile) {
      weights[tile] = _mm512_load_ps(panels[tile].weights[block][half][pair]);
    }
#pragma GCC unroll 6
    for (int r = 0; r < kMr; ++r) {
      const __m512 value = _mm512_set1_ps(a[pair * kGroup + r]);
#pragma GCC unroll 2
      for (int tile = 0; tile < kTiles; ++tile) {
        sums[tile][r] = _mm512_fmadd_ps(weights[tile], value, sums[tile][r]);
      }
    }
  }
}

// Adds the panel's products with kMr rows of a group to their sums, of which
// those with the next tile are `tile_sums` behind. `a` is that of the panel's
// first block.
template <int kTiles, int kMr>
void MultiplyGroup(const Panel (&panels)[kMostTiles], int blocks,
                   const float* a, float* sums, int64_t tile_sums) {
  alignas(64) float chains[kTiles][kMr][kTileRows] = {};
  for (int block = 0; block < blocks; ++block) {
    GroupSums<kTiles, kMr> low;
    GroupSums<kTiles, kMr> high;
#pragma GCC unroll 12
    for (int i = 0; i < kTiles * kMr; ++i) {
      low[i / kMr][i % kMr] = _mm512_setzero_ps();
      high[i / kMr][i % kMr] = _mm512_setzero_ps();
    }
    AddHalf<kTiles, kMr>(panels, block, 0, a, low);
    AddHalf<kTiles, kMr>(panels, block, 1, a + kPairs * kGroup, high);
    a += kBlockElements * kGroup;
#pragma GCC unroll 12
    for (int i = 0; i < kTiles * kMr; ++i) {
      const int tile = i / kMr;
      float* chain = chains[tile][i % kMr];
      const __m512 scale = _mm512_load_ps(panels[tile].scales[block]);
      const __m512 sum = _mm512_add_ps(low[tile][i % kMr], high[tile][i % kMr]);
      _mm512_store_ps(chain,
                      _mm512_fmadd_ps(sum, scale, _mm512_load_ps(chain)));
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kTiles * kMr; ++i) {
    const int tile = i / kMr;
    float* sum = sums + tile * tile_sums + i % kMr * kTileRows;
    const __m512 chain = _mm512_load_ps(chains[tile][i % kMr]);
    _mm512_storeu_ps(sum, _mm512_add_ps(_mm512_loadu_ps(sum), chain));
  }
}

// MultiplyGroup of the first `rows` rows of a group, all if it has fewer.
template <int kTiles>
void MultiplyRows(const Panel (&panels)[kMostTiles], int blocks, const float* a,
                  int rows, float* sums, int64_t tile_sums) {
  switch (rows) {
    case 1:
      return MultiplyGroup<kTiles, 1>(panels, blocks, a, sums, tile_sums);
    case 2:
      return MultiplyGroup<kTiles, 2>(panels, blocks, a, sums, tile_sums);
    case 3:
      return MultiplyGroup<kTiles, 3>(panels, blocks, a, sums, tile_sums);
    case 4:
      return MultiplyGroup<kTiles, 4>(panels, blocks, a, sums, tile_sums);
    case 5:
      return MultiplyGroup<kTiles, 5>(panels, blocks, a, sums, tile_sums);
    default:
      return MultiplyGroup<kTiles, kGroup>(panels, blocks, a, sums, tile_sums);
  }
}

// Decodes block `block` of the tile into number `to` of the panel.
using BlockDecoder = void (*)(const TileArgs& args, int64_t block, int to,
                              Panel& panel);

// Bytes of a tile's weights to ask for beside each group of rows, so that those
// of the next panel come while this one is multiplied: whole cache lines.
int64_t PrefetchBytes(const TileArgs& args) {
  const int64_t groups = (args.rows + kGroup - 1) / kGroup;
  return (args.block_bytes * kChunkBlocks / groups + 63) & -64;
}

QGEMM_INLINE void Prefetch(const uint8_t* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(from) + i, _MM_HINT_T0);
  }
}

template <BlockDecoder kDecode, int kTiles>
void RunTiles(const TileArgs& args) {
  Panel panels[kMostTiles];
  const int64_t tile_sums = args.rows * kTileRows;
  const int64_t prefetch_bytes = PrefetchBytes(args);
  for (int64_t i = 0; i < kTiles * tile_sums; ++i) args.sums[i] = 0;
  TileArgs tiles[kTiles];
  for (int tile = 0; tile < kTiles; ++tile) {
    tiles[tile] = args;
    tiles[tile].codes += tile * args.next_codes;
    tiles[tile].scales += tile * args.next_scales;
    tiles[tile].zeros += tile * args.next_zeros;
  }
  for (int64_t begin = 0; begin < args.blocks; begin += kChunkBlocks) {
    const int64_t left = args.blocks - begin;
    const int blocks =
        left < kChunkBlocks ? static_cast<int>(left) : kChunkBlocks;
    for (int tile = 0; tile < kTiles; ++tile) {
      for (int i = 0; i < blocks; ++i) {
        kDecode(tiles[tile], begin + i, i, panels[tile]);
      }
    }
    int64_t ahead = (begin + kChunkBlocks) * args.block_bytes;
    for (int row = 0; row < args.rows; row += kGroup) {
      for (const TileArgs& tile : tiles) {
        Prefetch(tile.codes + ahead, prefetch_bytes);
      }
      ahead += prefetch_bytes;
      const float* a =
          args.packed + (row * args.blocks + begin * kGroup) * kBlockElements;
      MultiplyRows<kTiles>(panels, blocks, a, args.rows - row,
                           args.sums + row * kTileRows, tile_sums);
    }
  }
}

template <BlockDecoder kDecode>
void Run(const TileArgs* args) {
  if (args->tiles == 1) return RunTiles<kDecode, 1>(*args);
  RunTiles<kDecode, kMostTiles>(*args);
}

#define QGEMM_ROW(name, family, bits, zeros, least_rows, ...)               \
  {                                                                         \
    name "_64x16_avx512", family, bits, zeros, kMostRows, Run<__VA_ARGS__>, \
        least_rows, kFormPacked, kGroup, kMostTiles                         \
  }
#define QGEMM_ROWS(bits, least_rows)                                    \
  QGEMM_ROW("w" #bits "a32", kFamilyQuantA32, bits, 0, least_rows,      \
            DecodeCodes<bits, false>),                                  \
      QGEMM_ROW("w" #bits "a32z", kFamilyQuantA32, bits, 1, least_rows, \
                DecodeCodes<bits, true>)

constexpr Microkernel kRows[] = {
    QGEMM_ROWS(2, kLeastRows),
    QGEMM_ROWS(3, kLeastRows),
    QGEMM_ROWS(4, kLeastRows),
    QGEMM_ROWS(5, kLeastRows),
    QGEMM_ROW("wf16a32", kFamilyFloat16, 0, 0, kLeastRowsOfDense,
              DecodeDense<kFamilyFloat16>),
    QGEMM_ROW("wbf16a32", kFamilyBFloat16, 0, 0, kLeastRowsOfDense,
              DecodeDense<kFamilyBFloat16>)};

}  // namespace

MicrokernelRows PanelA32Avx512Rows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
