// SPDX-License-Identifier: Apache-2.0
//
// Many rows of fp32 activations on AVX2: a chunk of the tile is decoded into a
// panel of fp32 in the cache once, then multiplied with groups of rows.
// Intrinsics only, nothing shared with files compiled for other instruction
// sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/dense_weights_avx2.h"
#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/quant_codes_avx2.h"
#include "kernels/cpu/microkernels/tile_scales_avx2.h"

namespace qgemm::cpu {
namespace {

// Rows of a group: with a sum each for either side of the tile, as many as
// registers hold beside weights. Fewer than eight sums would wait for their
// additions.
constexpr int kGroup = 6;
// Rows from which a panel is faster than decoding for each 2 rows, dense
// weights for each 4. Measured.
constexpr int kLeastRows = 3;
constexpr int kLeastRowsOfDense = 9;

constexpr int kPairs = 16;  // of a half of a block

// A chunk of a tile.
struct alignas(64) Panel {
  float weights[kChunkBlocks][2][kPairs][kTileRows];  // without their scales
  float scales[kChunkBlocks][kTileRows];
};

template <int kBits, bool kZeros>
void DecodeCodes(const TileArgs& args, const Codebook256& codebook,
                 int64_t block, int to, Panel& panel) {
  const int64_t group = block >> args.group_shift;
  for (int side = 0; side < 2; ++side) {
    const int lane = side * kHalfRows;
    const __m256 zeros =
        kZeros ? LoadZeros(args, group, side) : _mm256_setzero_ps();
    const auto add = [&](ElementPlace from, __m256i index)
        __attribute__((always_inline)) {
      __m256 weights = Decode<kBits>(index, codebook);
      if constexpr (kZeros) weights = _mm256_sub_ps(weights, zeros);
      _mm256_store_ps(panel.weights[to][from.half][from.pair] + lane, weights);
    };
    const uint8_t* codes = args.codes + block * (64 * kBits) + side * 32;
#pragma GCC unroll 16
    for (int pair = 0; pair < kPairs; ++pair) {
      VisitPair<kBits>(codes, pair, add);
    }
    _mm256_store_ps(panel.scales[to] + lane, LoadScales(args, group, side));
  }
}

template <int kFamily>
void DecodeDense(const TileArgs& args, const Codebook256&, int64_t block,
                 int to, Panel& panel) {
  const uint8_t* elements = args.codes + block * (kBlockElements * 32);
  for (int k = 0; k < kBlockElements; ++k) {
    float* weights = panel.weights[to][k % 2][k / 2];
    _mm256_store_ps(weights, LoadWeights<kFamily>(elements + 32 * k));
    _mm256_store_ps(weights + kHalfRows,
                    LoadWeights<kFamily>(elements + 32 * k + 16));
  }
  _mm256_store_ps(panel.scales[to], _mm256_set1_ps(1));
  _mm256_store_ps(panel.scales[to] + kHalfRows, _mm256_set1_ps(1));
}

// Sums of kMr rows with either side of the tile.
template <int kMr>
using GroupSums = __m256[kMr][2];

template <int kMr>
QGEMM_INLINE void SetZero(GroupSums<kMr>& sums) {
#pragma GCC unroll 12
  for (int i = 0; i < 2 * kMr; ++i) sums[i / 2][i % 2] = _mm256_setzero_ps();
}

// Adds the products of one pair of a half block and kMr rows of a group.
template <int kMr>
QGEMM_INLINE void AddPair(const float (&weights)[kTileRows], const float* a,
                          GroupSums<kMr>& sums) {
  const __m256 left = _mm256_load_ps(weights);
  const __m256 right = _mm256_load_ps(weights + kHalfRows);
#pragma GCC unroll 6
  for (int r = 0; r < kMr; ++r) {
    const __m256 value = _mm256_broadcast_ss(a + r);
    sums[r][0] = _mm256_fmadd_ps(left, value, sums[r][0]);
    sums[r][1] = _mm256_fmadd_ps(right, value, sums[r][1]);
  }
}

// The sums of all pairs of one half of a block.
template <int kMr>
QGEMM_INLINE void SumHalf(const float (&weights)[kPairs][kTileRows],
                          const float* a, GroupSums<kMr>& sums) {
  SetZero<kMr>(sums);
#pragma GCC unroll 16
  for (int pair = 0; pair < kPairs; ++pair) {
    AddPair<kMr>(weights[pair], a + pair * kGroup, sums);
  }
}

// The same, quarter by quarter.
template <int kMr>
QGEMM_INLINE void SumQuarters(const float (&weights)[kPairs][kTileRows],
                              const float* a, GroupSums<kMr>& sums) {
  GroupSums<kMr> quarters[2];
#pragma GCC unroll 2
  for (int quarter = 0; quarter < 2; ++quarter) {
    SetZero<kMr>(quarters[quarter]);
#pragma GCC unroll 8
    for (int i = 0; i < kPairs / 2; ++i) {
      const int pair = i / 2 * 4 + 2 * quarter + i % 2;
      AddPair<kMr>(weights[pair], a + pair * kGroup, quarters[quarter]);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < 2 * kMr; ++i) {
    sums[i / 2][i % 2] =
        _mm256_add_ps(quarters[0][i / 2][i % 2], quarters[1][i / 2][i % 2]);
  }
}

// The sums of both halves, place by place in their half words: whole codes of 4
// bits.
template <int kMr>
QGEMM_INLINE void SumPlaces(const float (&weights)[2][kPairs][kTileRows],
                            const float* a, GroupSums<kMr>& sums) {
  constexpr int kPlaces = 4;
  GroupSums<kMr> places[kPlaces];
#pragma GCC unroll 4
  for (int place = 0; place < kPlaces; ++place) {
    SetZero<kMr>(places[place]);
#pragma GCC unroll 8
    for (int i = 0; i < kPairs / 2; ++i) {
      const int pair = i / 2 * kPlaces + place;
      AddPair<kMr>(weights[i % 2][pair], a + (i % 2 * kPairs + pair) * kGroup,
                   places[place]);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < 2 * kMr; ++i) {
    sums[i / 2][i % 2] = _mm256_add_ps(
        _mm256_add_ps(places[0][i / 2][i % 2], places[1][i / 2][i % 2]),
        _mm256_add_ps(places[2][i / 2][i % 2], places[3][i / 2][i % 2]));
  }
}

// Sums of a block that are made apart (microkernel.h).
enum BlockOrder { kByHalves, kByQuarters, kByPlaces };

template <int kMr, BlockOrder kOrder>
QGEMM_INLINE void SumBlock(const float (&weights)[2][kPairs][kTileRows],
                           const float* a, GroupSums<kMr>& sums) {
  if constexpr (kOrder == kByPlaces) return SumPlaces<kMr>(weights, a, sums);
  GroupSums<kMr> halves[2];
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const float* from = a + half * kPairs * kGroup;
    if constexpr (kOrder == kByQuarters) {
      SumQuarters<kMr>(weights[half], from, halves[half]);
    } else {
      SumHalf<kMr>(weights[half], from, halves[half]);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < 2 * kMr; ++i) {
    sums[i / 2][i % 2] =
        _mm256_add_ps(halves[0][i / 2][i % 2], halves[1][i / 2][i % 2]);
  }
}

// Weights of the next panel, asked for while this one is multiplied: some cache
// lines a block, as more at once would hold up its loads.
struct Ahead {
  const uint8_t* next;
  const uint8_t* end;
  int64_t block_bytes;  // to ask for beside a block of a group

  Ahead(const TileArgs& args, int64_t block)
      : next(args.codes + block * args.block_bytes),
        end(next + args.block_bytes * kChunkBlocks) {
    const int64_t groups = (args.rows + kGroup - 1) / kGroup;
    block_bytes = (args.block_bytes / groups + 63) & -64;
  }

  void Prefetch() {
    const uint8_t* until = next + block_bytes;
    for (; next < until && next < end; next += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T0);
    }
  }
};

// Adds the panel's products with kMr rows of a group to their sums. `a` is
// that of the panel's first block.
template <int kMr, BlockOrder kOrder>
void MultiplyGroup(const Panel& panel, int blocks, const float* a, Ahead& ahead,
                   float* sums) {
  alignas(32) float chains[kMr * kTileRows] = {};
  for (int block = 0; block < blocks; ++block) {
    ahead.Prefetch();
    GroupSums<kMr> block_sums;
    SumBlock<kMr, kOrder>(panel.weights[block], a, block_sums);
    a += kBlockElements * kGroup;
#pragma GCC unroll 12
    for (int i = 0; i < 2 * kMr; ++i) {
      float* chain = chains + i * kHalfRows;
      const __m256 scale =
          _mm256_load_ps(panel.scales[block] + i % 2 * kHalfRows);
      _mm256_store_ps(chain, _mm256_fmadd_ps(block_sums[i / 2][i % 2], scale,
                                             _mm256_load_ps(chain)));
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < 2 * kMr; ++i) {
    float* sum = sums + i * kHalfRows;
    const __m256 chain = _mm256_load_ps(chains + i * kHalfRows);
    _mm256_storeu_ps(sum, _mm256_add_ps(_mm256_loadu_ps(sum), chain));
  }
}

// MultiplyGroup of the first `rows` rows of a group, all if it has fewer.
template <BlockOrder kOrder>
void MultiplyRows(const Panel& panel, int blocks, const float* a, int rows,
                  Ahead& ahead, float* sums) {
  switch (rows) {
    case 1:
      return MultiplyGroup<1, kOrder>(panel, blocks, a, ahead, sums);
    case 2:
      return MultiplyGroup<2, kOrder>(panel, blocks, a, ahead, sums);
    case 3:
      return MultiplyGroup<3, kOrder>(panel, blocks, a, ahead, sums);
    case 4:
      return MultiplyGroup<4, kOrder>(panel, blocks, a, ahead, sums);
    case 5:
      return MultiplyGroup<5, kOrder>(panel, blocks, a, ahead, sums);
    default:
      return MultiplyGroup<kGroup, kOrder>(panel, blocks, a, ahead, sums);
  }
}

// Decodes block `block` of the tile into number `to` of the panel.
using BlockDecoder = void (*)(const TileArgs& args, const Codebook256& codebook,
                              int64_t block, int to, Panel& panel);

template <int kBits, BlockDecoder kDecode>
void Run(const TileArgs* args) {
  const auto multiply = kBits <= 3 ? MultiplyRows<kByHalves>
                        : kBits == 4 && HasWholeEntries(*args)
                            ? MultiplyRows<kByPlaces>
                            : MultiplyRows<kByQuarters>;
  Codebook256 codebook = {};
  if constexpr (kBits > 0) codebook = LoadCodebook(args->table);
  Panel panel;
  const int64_t count = args->rows * kTileRows;
  for (int64_t i = 0; i < count; ++i) args->sums[i] = 0;
  for (int64_t begin = 0; begin < args->blocks; begin += kChunkBlocks) {
    const int64_t left = args->blocks - begin;
    const int blocks =
        left < kChunkBlocks ? static_cast<int>(left) : kChunkBlocks;
    for (int i = 0; i < blocks; ++i)
      kDecode(*args, codebook, begin + i, i, panel);
    Ahead ahead(*args, begin + kChunkBlocks);
    for (int row = 0; row < args->rows; row += kGroup) {
      const float* a =
          args->packed + (row * args->blocks + begin * kGroup) * kBlockElements;
      multiply(panel, blocks, a, args->rows - row, ahead,
               args->sums + row * kTileRows);
    }
  }
}

#define QGEMM_ROW(name, family, bits, zeros, least_rows, ...)            \
  {                                                                      \
    name "_64x16_avx2", family, bits, zeros, 64, Run<bits, __VA_ARGS__>, \
        least_rows, kFormPacked, kGroup                                  \
  }
#define QGEMM_ROWS(bits)                                                \
  QGEMM_ROW("w" #bits "a32", kFamilyQuantA32, bits, 0, kLeastRows,      \
            DecodeCodes<bits, false>),                                  \
      QGEMM_ROW("w" #bits "a32z", kFamilyQuantA32, bits, 1, kLeastRows, \
                DecodeCodes<bits, true>)

constexpr Microkernel kRows[] = {
    QGEMM_ROWS(2),
    QGEMM_ROWS(3),
    QGEMM_ROWS(4),
    QGEMM_ROWS(5),
    QGEMM_ROW("wf16a32", kFamilyFloat16, 0, 0, kLeastRowsOfDense,
              DecodeDense<kFamilyFloat16>),
    QGEMM_ROW("wbf16a32", kFamilyBFloat16, 0, 0, kLeastRowsOfDense,
              DecodeDense<kFamilyBFloat16>)};

}  // namespace

MicrokernelRows PanelA32Avx2Rows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
