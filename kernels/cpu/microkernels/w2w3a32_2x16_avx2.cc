// SPDX-License-Identifier: Apache-2.0
//
// Codes of 2 and 3 bits times fp32 activations on AVX2: a tile is two halves
// of 8 rows, decoded by one permute a vector. Intrinsics only, nothing shared
// with files compiled for other instruction sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/quant_codes_avx2.h"
#include "kernels/cpu/microkernels/tile_scales_avx2.h"

namespace qgemm::cpu {
namespace {

// A block of kSides halves of the tile, the first of them `first`, into their
// chains. Two are decoded in turn: the sums of one alone would wait for
// their additions.
template <int kSides, int kBits, int kMr, bool kZeros>
QGEMM_INLINE void AddBlock(const TileArgs& args, const Codebook256& codebook,
                           const float* const (&rows)[kMr], int64_t block,
                           int first, __m256 (&chain)[2][kMr]) {
  const int64_t group = block >> args.group_shift;
  const uint8_t* codes = args.codes + block * (64 * kBits);
  __m256 zeros[kSides];
  __m256 sums[kSides][2][kMr];
#pragma GCC unroll 2
  for (int side = 0; side < kSides; ++side) {
    if constexpr (kZeros) zeros[side] = LoadZeros(args, group, first + side);
#pragma GCC unroll 2
    for (int r = 0; r < kMr; ++r) {
      sums[side][0][r] = _mm256_setzero_ps();
      sums[side][1][r] = _mm256_setzero_ps();
    }
  }
#pragma GCC unroll 16
  for (int pair = 0; pair < kBlockElements / 2; ++pair) {
#pragma GCC unroll 2
    for (int side = 0; side < kSides; ++side) {
      const auto add = [&](ElementPlace from, __m256i index)
          __attribute__((always_inline)) {
        __m256 weight = Decode<kBits>(index, codebook);
        if constexpr (kZeros) weight = _mm256_sub_ps(weight, zeros[side]);
#pragma GCC unroll 2
        for (int r = 0; r < kMr; ++r) {
          const __m256 a =
              _mm256_broadcast_ss(rows[r] + block * kBlockElements + from.k);
          __m256& sum = sums[side][from.half][r];
          sum = _mm256_fmadd_ps(weight, a, sum);
        }
      };
      VisitPair<kBits>(codes + (first + side) * 32, pair, add);
    }
  }
#pragma GCC unroll 2
  for (int side = 0; side < kSides; ++side) {
    const __m256 scale = LoadScales(args, group, first + side);
#pragma GCC unroll 2
    for (int r = 0; r < kMr; ++r) {
      const __m256 sum = _mm256_add_ps(sums[side][0][r], sums[side][1][r]);
      __m256& to = chain[first + side][r];
      to = _mm256_fmadd_ps(sum, scale, to);
    }
  }
}

template <int kMr>
QGEMM_INLINE void AddToSums(const __m256 (&chain)[2][kMr], float* sums) {
#pragma GCC unroll 2
  for (int r = 0; r < kMr; ++r) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      float* sum = sums + r * kTileRows + half * kHalfRows;
      _mm256_storeu_ps(sum,
                       _mm256_add_ps(_mm256_loadu_ps(sum), chain[half][r]));
    }
  }
}

template <int kBits, int kMr, bool kZeros>
void Run(const TileArgs* args) {
  const Codebook256 codebook = LoadCodebook(args->table);
  const float* rows[kMr];
#pragma GCC unroll 2
  for (int r = 0; r < kMr; ++r) rows[r] = args->a + r * args->a_stride;
  for (int i = 0; i < kMr * kTileRows; ++i) args->sums[i] = 0;
  for (int64_t begin = 0; begin < args->blocks; begin += kChunkBlocks) {
    const int64_t left = args->blocks - begin;
    const int64_t end = begin + (left < kChunkBlocks ? left : kChunkBlocks);
    __m256 chain[2][kMr];
#pragma GCC unroll 2
    for (int r = 0; r < kMr; ++r) {
      chain[0][r] = _mm256_setzero_ps();
      chain[1][r] = _mm256_setzero_ps();
    }
    for (int64_t block = begin; block < end; ++block) {
      PrefetchCodes<kBits>(args->codes + block * (64 * kBits));
      if constexpr (kMr == 1) {
        AddBlock<2, kBits, kMr, kZeros>(*args, codebook, rows, block, 0, chain);
      } else {
// A loop, or values of a half would wait in memory for the other one.
#pragma GCC unroll 1
        for (int half = 0; half < 2; ++half) {
          AddBlock<1, kBits, kMr, kZeros>(*args, codebook, rows, block, half,
                                          chain);
        }
      }
    }
    AddToSums<kMr>(chain, args->sums);
  }
}

#define QGEMM_ROW(bits, mr)                                         \
  {"w" #bits "a32_" #mr "x16_avx2",                                 \
   kFamilyQuantA32,                                                 \
   bits,                                                            \
   0,                                                               \
   mr,                                                              \
   Run<bits, mr, false>},                                           \
  {                                                                 \
    "w" #bits "a32z_" #mr "x16_avx2", kFamilyQuantA32, bits, 1, mr, \
        Run<bits, mr, true>                                         \
  }
#define QGEMM_ROWS(bits) QGEMM_ROW(bits, 2), QGEMM_ROW(bits, 1)

constexpr Microkernel kRows[] = {QGEMM_ROWS(2), QGEMM_ROWS(3)};

}  // namespace

MicrokernelRows W2W3A32Avx2Rows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
