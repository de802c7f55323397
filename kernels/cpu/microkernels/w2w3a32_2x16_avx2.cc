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

// kBlocks neighbouring blocks of kSides halves of the tile, the first of them
// `first`, into their chains. They are decoded in turn, as the sums of one
// alone would wait for their additions.
template <int kBlocks, int kSides, int kBits, int kMr, bool kZeros>
QGEMM_INLINE void AddSides(const TileArgs& args, __m256 table,
                           const float* const (&rows)[kMr], int64_t block,
                           int first, __m256 (&chain)[2][kMr]) {
  constexpr int kParts = kBlocks * kSides;
  constexpr bool kRead = kMr == 1;  // two rows gain nothing
  const uint8_t* codes = args.codes + block * (64 * kBits) + first * 32;
  __m256 zeros[kParts];
  __m256 sums[kParts][2][kMr];
#pragma GCC unroll 4
  for (int part = 0; part < kParts; ++part) {
    if constexpr (kZeros) {
      zeros[part] = LoadZeros(args, (block + part / kSides) >> args.group_shift,
                              first + part % kSides);
    }
#pragma GCC unroll 2
    for (int r = 0; r < kMr; ++r) {
      sums[part][0][r] = _mm256_setzero_ps();
      sums[part][1][r] = _mm256_setzero_ps();
    }
  }
#pragma GCC unroll 16
  for (int pair = 0; pair < kBlockElements / 2; ++pair) {
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) {
      const int64_t offset = (block + part / kSides) * kBlockElements;
      const auto add = [&](ElementPlace from, __m256i index)
          __attribute__((always_inline)) {
        __m256 weight = Decode<kBits>(index, table);
        if constexpr (kZeros) weight = _mm256_sub_ps(weight, zeros[part]);
#pragma GCC unroll 2
        for (int r = 0; r < kMr; ++r) {
          const __m256 a = _mm256_broadcast_ss(rows[r] + offset + from.k);
          __m256& sum = sums[part][from.half][r];
          sum = _mm256_fmadd_ps(weight, a, sum);
        }
      };
      VisitPair<kBits, kRead>(
          codes + part / kSides * (64 * kBits) + part % kSides * 32, pair, add);
    }
  }
#pragma GCC unroll 4
  for (int part = 0; part < kParts; ++part) {
    const int side = first + part % kSides;
    const __m256 scale =
        LoadScales(args, (block + part / kSides) >> args.group_shift, side);
#pragma GCC unroll 2
    for (int r = 0; r < kMr; ++r) {
      const __m256 sum = _mm256_add_ps(sums[part][0][r], sums[part][1][r]);
      chain[side][r] = _mm256_fmadd_ps(sum, scale, chain[side][r]);
    }
  }
}

// kBlocks neighbouring blocks into their chains.
template <int kBlocks, int kBits, int kMr, bool kZeros>
QGEMM_INLINE void AddBlocks(const TileArgs& args, __m256 table,
                            const float* const (&rows)[kMr], int64_t block,
                            __m256 (&chain)[2][kMr]) {
  constexpr int kSides = kMr == 1 ? 2 : 1;
#pragma GCC unroll 2
  for (int i = 0; i < kBlocks; ++i) {
    PrefetchCodes<kBits>(args.codes + (block + i) * (64 * kBits));
  }
// A loop, or values of a half would wait in memory for the other one.
#pragma GCC unroll 1
  for (int side = 0; side < 2; side += kSides) {
    AddSides<kBlocks, kSides, kBits, kMr, kZeros>(args, table, rows, block,
                                                  side, chain);
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
  constexpr int kAtOnce = kMr == 1 && !kZeros ? 2 : 1;
  const __m256 table = _mm256_loadu_ps(args->table);
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
    int64_t block = begin;
    for (; block + kAtOnce <= end; block += kAtOnce) {
      AddBlocks<kAtOnce, kBits, kMr, kZeros>(*args, table, rows, block, chain);
    }
    if (block < end) {
      AddBlocks<1, kBits, kMr, kZeros>(*args, table, rows, block, chain);
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
