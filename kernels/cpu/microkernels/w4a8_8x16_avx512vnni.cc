// SPDX-License-Identifier: Apache-2.0
//
// 4-bit codes minus 8 times Q8_1 activations on AVX-512 VNNI: four products a
// lane an instruction, exact in int32. Intrinsics only, nothing shared with
// files compiled for other instruction sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/tile_scales_avx512.h"

namespace qgemm::cpu {
namespace {

// Four activations, in every lane.
QGEMM_INLINE __m512i Broadcast4(const int8_t* q8) {
  int32_t word;
  __builtin_memcpy(&word, q8, sizeof(word));
  return _mm512_set1_epi32(word);
}

template <int kMr>
QGEMM_INLINE void AddBlock(const TileArgs& args, int64_t block,
                           __m512 (&chain)[kMr]) {
  const __m512i nibble = _mm512_set1_epi8(15);
  const uint8_t* codes = args.codes + block * 256;
  __m512i dot[kMr];
#pragma GCC unroll 8
  for (int r = 0; r < kMr; ++r) {
    dot[r] = _mm512_set1_epi32(-8 * args.q8_sum[r * args.d8_stride + block]);
  }
#pragma GCC unroll 4
  for (int w = 0; w < 4; ++w) {
    const __m512i word = _mm512_loadu_si512(codes + 64 * w);
    _mm_prefetch(reinterpret_cast<const char*>(codes) + kPrefetchBytes + 64 * w,
                 _MM_HINT_T0);
    const __m512i even = _mm512_and_si512(word, nibble);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(word, 4), nibble);
#pragma GCC unroll 8
    for (int r = 0; r < kMr; ++r) {
      const int8_t* q8 =
          args.q8 + r * args.q8_stride + block * kBlockElements + 8 * w;
      dot[r] = _mm512_dpbusd_epi32(dot[r], even, Broadcast4(q8));
      dot[r] = _mm512_dpbusd_epi32(dot[r], odd, Broadcast4(q8 + 4));
    }
  }
  const __m512 scale = LoadScales(args, block >> args.group_shift);
#pragma GCC unroll 8
  for (int r = 0; r < kMr; ++r) {
    const __m512 d = _mm512_mul_ps(
        scale, _mm512_set1_ps(args.d8[r * args.d8_stride + block]));
    chain[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r]), d, chain[r]);
  }
}

template <int kMr>
void Run(const TileArgs* args) {
#pragma GCC unroll 8
  for (int r = 0; r < kMr; ++r) {
    _mm512_storeu_ps(args->sums + r * kTileRows, _mm512_setzero_ps());
  }
  for (int64_t begin = 0; begin < args->blocks; begin += kChunkBlocks) {
    const int64_t left = args->blocks - begin;
    const int64_t end = begin + (left < kChunkBlocks ? left : kChunkBlocks);
    __m512 chain[kMr];
#pragma GCC unroll 8
    for (int r = 0; r < kMr; ++r) chain[r] = _mm512_setzero_ps();
    for (int64_t block = begin; block < end; ++block) {
      AddBlock<kMr>(*args, block, chain);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kMr; ++r) {
      float* sum = args->sums + r * kTileRows;
      _mm512_storeu_ps(sum, _mm512_add_ps(_mm512_loadu_ps(sum), chain[r]));
    }
  }
}

constexpr Microkernel kRows[] = {
    {"w4a8_8x16_avx512vnni", kFamilyW4A8, 4, 0, 8, Run<8>},
    {"w4a8_4x16_avx512vnni", kFamilyW4A8, 4, 0, 4, Run<4>},
    {"w4a8_2x16_avx512vnni", kFamilyW4A8, 4, 0, 2, Run<2>},
    {"w4a8_1x16_avx512vnni", kFamilyW4A8, 4, 0, 1, Run<1>},
};

}  // namespace

MicrokernelRows W4A8Avx512VnniRows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
