// SPDX-License-Identifier: Apache-2.0
//
// Many rows of fp32 activations on AVX2: a chunk of the tile is decoded into a
// panel of fp32 in the cache once, then multiplied with groups of rows.
// Intrinsics only, nothing shared with files compiled for other instruction
// sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/byte_tables_avx2.h"
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

// Decoders: Decode puts block `block` of the tile into number `to` of a panel.

// Calls decode(codes, zeros, lane) for either side of a block, whose weights go
// to lanes from `lane` on, and sets its scales.
template <int kBits, bool kZeros, typename DecodeSide>
QGEMM_INLINE void DecodeSides(const TileArgs& args, int64_t block, int to,
                              Panel& panel, const DecodeSide& decode) {
  const int64_t group = block >> args.group_shift;
  for (int side = 0; side < 2; ++side) {
    const int lane = side * kHalfRows;
    decode(args.codes + block * (64 * kBits) + side * 32,
           kZeros ? LoadZeros(args, group, side) : _mm256_setzero_ps(), lane);
    _mm256_store_ps(panel.scales[to] + lane, LoadScales(args, group, side));
  }
}

// Permutes, a code of each row at a time.
template <int kBits, bool kZeros>
class CodeDecoder {
 public:
  explicit CodeDecoder(const TileArgs& args)
      : table_(_mm256_loadu_ps(args.table)) {}

  void Decode(const TileArgs& args, int64_t block, int to, Panel& panel) const {
    const auto decode = [&](const uint8_t* codes, __m256 zeros, int lane)
        __attribute__((always_inline)) {
      const auto add = [&](ElementPlace from, __m256i index)
          __attribute__((always_inline)) {
        __m256 weights = cpu::Decode<kBits>(index, table_);
        if constexpr (kZeros) weights = _mm256_sub_ps(weights, zeros);
        _mm256_store_ps(panel.weights[to][from.half][from.pair] + lane,
                        weights);
      };
#pragma GCC unroll 16
      for (int pair = 0; pair < kPairs; ++pair) {
        VisitPair<kBits>(codes, pair, add);
      }
    };
    DecodeSides<kBits, kZeros>(args, block, to, panel, decode);
  }

 private:
  const __m256 table_;
};

// The entries of four codes a lane, each a lane of its own.
template <int kBits, bool kTwoBytes>
QGEMM_INLINE void Join(__m256i codes, const ByteTables<kBits>& tables,
                       __m256 (&weights)[4]) {
  constexpr int kOddBytes = 0xaa;  // or halves
  const __m256i odd = _mm256_set1_epi16(static_cast<int16_t>(0xff00));
  const __m256i top = LookUp<kBits>(codes, tables, 2);
  const __m256i next = LookUp<kBits>(codes, tables, 1);
  // The upper halves of entries 0 and 2, 1 and 3.
  const __m256i upper[2] = {
      _mm256_blendv_epi8(next, _mm256_slli_epi16(top, 8), odd),
      _mm256_blendv_epi8(_mm256_srli_epi16(next, 8), top, odd)};
  __m256i lower[2] = {};
  if constexpr (!kTwoBytes) {
    const __m256i last = LookUp<kBits>(codes, tables, 0);
    lower[0] = _mm256_slli_epi16(last, 8);
    lower[1] = _mm256_and_si256(last, odd);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    weights[i] = _mm256_castsi256_ps(_mm256_blend_epi16(
        lower[i], _mm256_slli_epi32(upper[i], 16), kOddBytes));
    weights[2 + i] = _mm256_castsi256_ps(_mm256_blend_epi16(
        _mm256_srli_epi32(lower[i], 16), upper[i], kOddBytes));
  }
}

// Lookups of bytes, four codes of each row at a time.
template <int kBits, bool kZeros, bool kTwoBytes>
class ByteDecoder {
 public:
  explicit ByteDecoder(const TileArgs& args)
      : tables_(LoadByteTables<kBits>(args.table)) {}

  void Decode(const TileArgs& args, int64_t block, int to, Panel& panel) const {
    const auto decode = [&](const uint8_t* codes, __m256 zeros, int lane)
        __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (int step = 0; step < kPairs / 2; ++step) {
        // Codes of 4 bits have pairs 0 and 2, 1 and 3 of a word together.
        const int p = kBits == 4 ? step / 2 * 4 + step % 2 : 2 * step;
        const int q = kBits == 4 ? p + 2 : p + 1;
        __m256 weights[4];
        Join<kBits, kTwoBytes>(LoadCodes<kBits>(codes, p, q), tables_, weights);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          if constexpr (kZeros) weights[i] = _mm256_sub_ps(weights[i], zeros);
          _mm256_store_ps(panel.weights[to][i / 2][i % 2 == 0 ? p : q] + lane,
                          weights[i]);
        }
      }
    };
    DecodeSides<kBits, kZeros>(args, block, to, panel, decode);
  }

 private:
  const ByteTables<kBits> tables_;
};

template <int kFamily>
class DenseDecoder {
 public:
  explicit DenseDecoder(const TileArgs&) {}

  void Decode(const TileArgs& args, int64_t block, int to, Panel& panel) const {
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
};

// Sums of kMr rows with either side of the tile.
template <int kMr>
using GroupSums = __m256[kMr][2];

// Adds the products of one pair of a half block and kMr rows of a group; the
// first pair's are the sums.
template <int kMr>
QGEMM_INLINE void AddPair(const float (&weights)[kTileRows], const float* a,
                          bool is_first, GroupSums<kMr>& sums) {
  const __m256 sides[2] = {_mm256_load_ps(weights),
                           _mm256_load_ps(weights + kHalfRows)};
#pragma GCC unroll 6
  for (int r = 0; r < kMr; ++r) {
    const __m256 value = _mm256_broadcast_ss(a + r);
#pragma GCC unroll 2
    for (int side = 0; side < 2; ++side) {
      sums[r][side] = is_first
                          ? _mm256_mul_ps(sides[side], value)
                          : _mm256_fmadd_ps(sides[side], value, sums[r][side]);
    }
  }
}

// The sums of all pairs of one half of a block.
template <int kMr>
QGEMM_INLINE void SumHalf(const float (&weights)[kPairs][kTileRows],
                          const float* a, GroupSums<kMr>& sums) {
#pragma GCC unroll 16
  for (int pair = 0; pair < kPairs; ++pair) {
    AddPair<kMr>(weights[pair], a + pair * kGroup, pair == 0, sums);
  }
}

// The same, quarter by quarter.
template <int kMr>
QGEMM_INLINE void SumQuarters(const float (&weights)[kPairs][kTileRows],
                              const float* a, GroupSums<kMr>& sums) {
  GroupSums<kMr> quarters[2];
#pragma GCC unroll 2
  for (int quarter = 0; quarter < 2; ++quarter) {
#pragma GCC unroll 8
    for (int i = 0; i < kPairs / 2; ++i) {
      const int pair = i / 2 * 4 + 2 * quarter + i % 2;
      AddPair<kMr>(weights[pair], a + pair * kGroup, i == 0, quarters[quarter]);
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
#pragma GCC unroll 8
    for (int i = 0; i < kPairs / 2; ++i) {
      const int pair = i / 2 * kPlaces + place;
      AddPair<kMr>(weights[i % 2][pair], a + (i % 2 * kPairs + pair) * kGroup,
                   i == 0, places[place]);
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

template <typename Decoder, BlockOrder kOrder>
void Run(const TileArgs& args) {
  const Decoder decoder(args);
  Panel panel;
  const int64_t count = args.rows * kTileRows;
  for (int64_t i = 0; i < count; ++i) args.sums[i] = 0;
  for (int64_t begin = 0; begin < args.blocks; begin += kChunkBlocks) {
    const int64_t left = args.blocks - begin;
    const int blocks =
        left < kChunkBlocks ? static_cast<int>(left) : kChunkBlocks;
    for (int i = 0; i < blocks; ++i) decoder.Decode(args, begin + i, i, panel);
    Ahead ahead(args, begin + kChunkBlocks);
    for (int row = 0; row < args.rows; row += kGroup) {
      const float* a =
          args.packed + (row * args.blocks + begin * kGroup) * kBlockElements;
      MultiplyRows<kOrder>(panel, blocks, a, args.rows - row, ahead,
                           args.sums + row * kTileRows);
    }
  }
}

template <int kBits, bool kZeros>
void RunQuant(const TileArgs* args) {
  if constexpr (kBits <= 3) {
    Run<CodeDecoder<kBits, kZeros>, kByHalves>(*args);
  } else if (HasTwoBytes(args->table)) {
    kBits == 4 && HasWholeEntries(*args)
        ? Run<ByteDecoder<kBits, kZeros, true>, kByPlaces>(*args)
        : Run<ByteDecoder<kBits, kZeros, true>, kByQuarters>(*args);
  } else {
    Run<ByteDecoder<kBits, kZeros, false>, kByQuarters>(*args);
  }
}

template <int kFamily>
void RunDense(const TileArgs* args) {
  Run<DenseDecoder<kFamily>, kByHalves>(*args);
}

#define QGEMM_ROW(name, family, bits, zeros, least_rows, ...)             \
  {                                                                       \
    name "_64x16_avx2", family, bits, zeros, 64, __VA_ARGS__, least_rows, \
        kFormPacked, kGroup                                               \
  }
#define QGEMM_ROWS(bits)                                                \
  QGEMM_ROW("w" #bits "a32", kFamilyQuantA32, bits, 0, kLeastRows,      \
            RunQuant<bits, false>),                                     \
      QGEMM_ROW("w" #bits "a32z", kFamilyQuantA32, bits, 1, kLeastRows, \
                RunQuant<bits, true>)

constexpr Microkernel kRows[] = {
    QGEMM_ROWS(2),
    QGEMM_ROWS(3),
    QGEMM_ROWS(4),
    QGEMM_ROWS(5),
    QGEMM_ROW("wf16a32", kFamilyFloat16, 0, 0, kLeastRowsOfDense,
              RunDense<kFamilyFloat16>),
    QGEMM_ROW("wbf16a32", kFamilyBFloat16, 0, 0, kLeastRowsOfDense,
              RunDense<kFamilyBFloat16>)};

}  // namespace

MicrokernelRows PanelA32Avx2Rows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
