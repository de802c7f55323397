// SPDX-License-Identifier: Apache-2.0
//
// 4-bit codes minus 8 times Q8_1 activations on AVX2: byte products summed in
// int16, where 16 products of at most 15 * 127 fit, then in int32; exact.
// Intrinsics only, nothing shared with files compiled for other instruction
// sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/tile_scales_avx2.h"

namespace qgemm::cpu {
namespace {

// Four activations, in every lane.
QGEMM_INLINE __m256i Broadcast4(const int8_t* q8) {
  int32_t word;
  __builtin_memcpy(&word, q8, sizeof(word));
  return _mm256_set1_epi32(word);
}

// The integer dots of 8 rows with each activation row.
template <int kMr>
QGEMM_INLINE void BlockDots(const TileArgs& args, int64_t block, int half,
                            __m256i (&dots)[kMr]) {
  const __m256i nibble = _mm256_set1_epi8(15);
  const uint8_t* codes = args.codes + block * 256 + half * 32;
  __m256i pairs[kMr];
#pragma GCC unroll 4
  for (int r = 0; r < kMr; ++r) pairs[r] = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int w = 0; w < 4; ++w) {
    const __m256i word =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + 64 * w));
    _mm_prefetch(reinterpret_cast<const char*>(codes) + kPrefetchBytes + 64 * w,
                 _MM_HINT_T0);
    const __m256i even = _mm256_and_si256(word, nibble);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(word, 4), nibble);
#pragma GCC unroll 4
    for (int r = 0; r < kMr; ++r) {
      const int8_t* q8 =
          args.q8 + r * args.q8_stride + block * kBlockElements + 8 * w;
      pairs[r] = _mm256_add_epi16(
          pairs[r],
          _mm256_add_epi16(_mm256_maddubs_epi16(even, Broadcast4(q8)),
                           _mm256_maddubs_epi16(odd, Broadcast4(q8 + 4))));
    }
  }
  const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
  for (int r = 0; r < kMr; ++r) {
    const int32_t offset = -8 * args.q8_sum[r * args.d8_stride + block];
    dots[r] = _mm256_add_epi32(_mm256_madd_epi16(pairs[r], ones),
                               _mm256_set1_epi32(offset));
  }
}

template <int kMr>
QGEMM_INLINE void AddHalfBlock(const TileArgs& args, int64_t block, int half,
                               __m256 (&chain)[kMr]) {
  __m256i dots[kMr];
  BlockDots<kMr>(args, block, half, dots);
  const __m256 scale = LoadScales(args, block >> args.group_shift, half);
#pragma GCC unroll 4
  for (int r = 0; r < kMr; ++r) {
    const __m256 d = _mm256_mul_ps(
        scale, _mm256_set1_ps(args.d8[r * args.d8_stride + block]));
    chain[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[r]), d, chain[r]);
  }
}

template <int kMr>
QGEMM_INLINE void AddToSums(const __m256 (&chain)[kMr], int half, float* sums) {
#pragma GCC unroll 4
  for (int r = 0; r < kMr; ++r) {
    float* sum = sums + r * kTileRows + half * kHalfRows;
    _mm256_storeu_ps(sum, _mm256_add_ps(_mm256_loadu_ps(sum), chain[r]));
  }
}

template <int kMr>
void Run(const TileArgs* args) {
  for (int i = 0; i < kMr * kTileRows; ++i) args->sums[i] = 0;
  for (int64_t begin = 0; begin < args->blocks; begin += kChunkBlocks) {
    const int64_t left = args->blocks - begin;
    const int64_t end = begin + (left < kChunkBlocks ? left : kChunkBlocks);
    for (int half = 0; half < 2; ++half) {
      __m256 chain[kMr];
#pragma GCC unroll 4
      for (int r = 0; r < kMr; ++r) chain[r] = _mm256_setzero_ps();
      for (int64_t block = begin; block < end; ++block) {
        AddHalfBlock<kMr>(*args, block, half, chain);
      }
      AddToSums<kMr>(chain, half, args->sums);
    }
  }
}

constexpr Microkernel kRows[] = {
    {"w4a8_4x16_avx2", kFamilyW4A8, 4, 0, 4, Run<4>},
    {"w4a8_2x16_avx2", kFamilyW4A8, 4, 0, 2, Run<2>},
    {"w4a8_1x16_avx2", kFamilyW4A8, 4, 0, 1, Run<1>},
};

}  // namespace

MicrokernelRows W4A8Avx2Rows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
