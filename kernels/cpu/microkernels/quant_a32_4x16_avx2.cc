// SPDX-License-Identifier: Apache-2.0
//
// Codes of 2 to 5 bits times fp32 activations on AVX2: a tile is two halves
// of 8 rows, decoded by permutes of 8 entries and blends. Intrinsics only,
// nothing shared with files compiled for other instruction sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/quant_codes_avx2.h"
#include "kernels/cpu/microkernels/tile_scales_avx2.h"

namespace qgemm::cpu {
namespace {

// The sums of one half block while it is being read.
template <int kBits, int kMr, bool kZeros>
struct BlockSums {
  __m256 half_sums[2][kMr];
  __m256 zero;

  static inline __attribute__((always_inline)) BlockSums Start(__m256 zero) {
    BlockSums sums;
    sums.zero = zero;
#pragma GCC unroll 4
    for (int r = 0; r < kMr; ++r) {
      sums.half_sums[0][r] = _mm256_setzero_ps();
      sums.half_sums[1][r] = _mm256_setzero_ps();
    }
    return sums;
  }

  // `index` holds the element's code.
  inline __attribute__((always_inline)) void Add(
      ElementPlace from, __m256i index, const Codebook256& codebook,
      const float* const (&rows)[kMr], int64_t offset) {
    __m256 weight = Decode<kBits>(index, codebook);
    if constexpr (kZeros) weight = _mm256_sub_ps(weight, zero);
#pragma GCC unroll 4
    for (int r = 0; r < kMr; ++r) {
      const __m256 a = _mm256_set1_ps(rows[r][offset + from.k]);
      half_sums[from.half][r] =
          _mm256_fmadd_ps(weight, a, half_sums[from.half][r]);
    }
  }
};

// One block of one half into its chain.
template <int kBits, int kMr, bool kZeros>
QGEMM_INLINE void AddHalfBlock(const TileArgs& args,
                               const Codebook256& codebook,
                               const float* const (&rows)[kMr], int64_t block,
                               int half, __m256 (&chain)[2][kMr]) {
  const int64_t group = block >> args.group_shift;
  auto sums = BlockSums<kBits, kMr, kZeros>::Start(
      kZeros ? LoadZeros(args, group, half) : _mm256_setzero_ps());
  const auto add = [&](ElementPlace from, __m256i index)
      __attribute__((always_inline)) {
    sums.Add(from, index, codebook, rows, block * kBlockElements);
  };
  VisitCodes<kBits>(args.codes + block * (64 * kBits) + half * 32, add);
  const __m256 scale = LoadScales(args, group, half);
#pragma GCC unroll 4
  for (int r = 0; r < kMr; ++r) {
    const __m256 sum =
        _mm256_add_ps(sums.half_sums[0][r], sums.half_sums[1][r]);
    chain[half][r] = _mm256_fmadd_ps(sum, scale, chain[half][r]);
  }
}

template <int kMr>
QGEMM_INLINE void AddToSums(const __m256 (&chain)[2][kMr], float* sums) {
#pragma GCC unroll 4
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
#pragma GCC unroll 4
  for (int r = 0; r < kMr; ++r) rows[r] = args->a + r * args->a_stride;
  for (int i = 0; i < kMr * kTileRows; ++i) args->sums[i] = 0;
  for (int64_t begin = 0; begin < args->blocks; begin += kChunkBlocks) {
    const int64_t left = args->blocks - begin;
    const int64_t end = begin + (left < kChunkBlocks ? left : kChunkBlocks);
    __m256 chain[2][kMr];
#pragma GCC unroll 4
    for (int r = 0; r < kMr; ++r) {
      chain[0][r] = _mm256_setzero_ps();
      chain[1][r] = _mm256_setzero_ps();
    }
    for (int64_t block = begin; block < end; ++block) {
      AddHalfBlock<kBits, kMr, kZeros>(*args, codebook, rows, block, 0, chain);
      AddHalfBlock<kBits, kMr, kZeros>(*args, codebook, rows, block, 1, chain);
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
#define QGEMM_ROWS(bits) \
  QGEMM_ROW(bits, 4), QGEMM_ROW(bits, 2), QGEMM_ROW(bits, 1)

constexpr Microkernel kRows[] = {QGEMM_ROWS(2), QGEMM_ROWS(3), QGEMM_ROWS(4),
                                 QGEMM_ROWS(5)};

}  // namespace

MicrokernelRows QuantA32Avx2Rows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
