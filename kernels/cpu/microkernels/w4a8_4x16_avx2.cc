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

// Sums of products of each half of the tile with each activation row.
template <int kMr>
using HalfSums = __m256i[2][kMr];

// Adds the products of one word a weight row, `q8` those of the first row.
template <int kMr>
QGEMM_INLINE void AddWord(const uint8_t* codes, const int8_t* q8,
                          int64_t q8_stride, HalfSums<kMr>& sums) {
  const __m256i nibble = _mm256_set1_epi8(15);
  __m256i even[2];
  __m256i odd[2];
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const __m256i word =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + 32 * half));
    even[half] = _mm256_and_si256(word, nibble);
    odd[half] = _mm256_and_si256(_mm256_srli_epi32(word, 4), nibble);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kMr; ++r) {
    const __m256i even_q8 = Broadcast4(q8 + r * q8_stride);
    const __m256i odd_q8 = Broadcast4(q8 + r * q8_stride + 4);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      __m256i& sum = sums[half][r];
      sum = _mm256_add_epi16(
          sum, _mm256_add_epi16(_mm256_maddubs_epi16(even[half], even_q8),
                                _mm256_maddubs_epi16(odd[half], odd_q8)));
      // Or the compiler gathers all products before it adds any.
      asm("" : "+x"(sum));
    }
  }
}

template <int kMr>
QGEMM_INLINE void AddBlock(const TileArgs& args, int64_t block,
                           __m256 (&chain)[2][kMr]) {
  HalfSums<kMr> sums;
#pragma GCC unroll 8
  for (int i = 0; i < 2 * kMr; ++i) {
    sums[i / kMr][i % kMr] = _mm256_setzero_si256();
  }
#pragma GCC unroll 4
  for (int w = 0; w < 4; ++w) {
    const uint8_t* codes = args.codes + block * 256 + 64 * w;
    _mm_prefetch(reinterpret_cast<const char*>(codes) + kPrefetchBytes,
                 _MM_HINT_T0);
    AddWord<kMr>(codes, args.q8 + block * kBlockElements + 8 * w,
                 args.q8_stride, sums);
  }
  const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const __m256 scale = LoadScales(args, block >> args.group_shift, half);
#pragma GCC unroll 4
    for (int r = 0; r < kMr; ++r) {
      const int64_t at = r * args.d8_stride + block;
      const __m256i dots =
          _mm256_add_epi32(_mm256_madd_epi16(sums[half][r], ones),
                           _mm256_set1_epi32(-8 * args.q8_sum[at]));
      const __m256 d = _mm256_mul_ps(scale, _mm256_set1_ps(args.d8[at]));
      chain[half][r] =
          _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), d, chain[half][r]);
    }
  }
}

template <int kMr>
void Run(const TileArgs* args) {
  for (int i = 0; i < kMr * kTileRows; ++i) args->sums[i] = 0;
  for (int64_t begin = 0; begin < args->blocks; begin += kChunkBlocks) {
    const int64_t left = args->blocks - begin;
    const int64_t end = begin + (left < kChunkBlocks ? left : kChunkBlocks);
    __m256 chain[2][kMr];
#pragma GCC unroll 8
    for (int i = 0; i < 2 * kMr; ++i) {
      chain[i / kMr][i % kMr] = _mm256_setzero_ps();
    }
    for (int64_t block = begin; block < end; ++block) {
      AddBlock<kMr>(*args, block, chain);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 2 * kMr; ++i) {
      float* sum = args->sums + i % kMr * kTileRows + i / kMr * kHalfRows;
      const __m256 added = chain[i / kMr][i % kMr];
      _mm256_storeu_ps(sum, _mm256_add_ps(_mm256_loadu_ps(sum), added));
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
