// SPDX-License-Identifier: Apache-2.0
//
// Reads a tile's scales on AVX2. Included by files compiled for it alone.

#ifndef QGEMM_KERNELS_CPU_MICROKERNELS_TILE_SCALES_AVX2_H_
#define QGEMM_KERNELS_CPU_MICROKERNELS_TILE_SCALES_AVX2_H_

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"

namespace qgemm::cpu {

#define QGEMM_INLINE static inline __attribute__((always_inline))

// AVX2 takes a tile of 16 rows in two halves.
constexpr int kHalfRows = 8;

QGEMM_INLINE __m256 FromHalves(const uint8_t* halves) {
  return _mm256_cvtph_ps(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)));
}

// Eight scales of a group, E4M4 ones as their sixteenths; `half` is 0 for rows
// 0..7 of the tile, 1 for the others.
QGEMM_INLINE __m256 LoadScales(const TileArgs& args, int64_t group, int half) {
  const int64_t first = group * kTileRows + half * kHalfRows;
  switch (args.scale_type) {
    case kTileScaleE4m4: {
      const __m128i codes = _mm_cvtepu8_epi16(_mm_loadl_epi64(
          reinterpret_cast<const __m128i*>(args.scales + first)));
      return _mm256_cvtph_ps(_mm_slli_epi16(codes, 6));
    }
    case kTileScaleFloat16:
      return FromHalves(args.scales + first * 2);
    case kTileScaleBFloat16: {
      const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128(
          reinterpret_cast<const __m128i*>(args.scales + first * 2)));
      return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
    }
    default:
      return _mm256_loadu_ps(
          reinterpret_cast<const float*>(args.scales + first * 4));
  }
}

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_MICROKERNELS_TILE_SCALES_AVX2_H_
