// SPDX-License-Identifier: Apache-2.0
//
// Reads a tile's scales on AVX-512. Included by files compiled for it alone.

#ifndef QGEMM_KERNELS_CPU_MICROKERNELS_TILE_SCALES_AVX512_H_
#define QGEMM_KERNELS_CPU_MICROKERNELS_TILE_SCALES_AVX512_H_

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"

namespace qgemm::cpu {

#define QGEMM_INLINE static inline __attribute__((always_inline))

// The 16 scales of a group, E4M4 ones as their sixteenths.
QGEMM_INLINE __m512 LoadScales(const TileArgs& args, int64_t group) {
  const uint8_t* scales = args.scales;
  switch (args.scale_type) {
    case kTileScaleE4m4: {
      const __m256i codes = _mm256_cvtepu8_epi16(_mm_loadu_si128(
          reinterpret_cast<const __m128i*>(scales + group * 16)));
      return _mm512_cvtph_ps(_mm256_slli_epi16(codes, 6));
    }
    case kTileScaleFloat16:
      return _mm512_cvtph_ps(_mm256_loadu_si256(
          reinterpret_cast<const __m256i*>(scales + group * 32)));
    case kTileScaleBFloat16: {
      const __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(
          reinterpret_cast<const __m256i*>(scales + group * 32)));
      return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
    }
    default:
      return _mm512_loadu_ps(scales + group * 64);
  }
}

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_MICROKERNELS_TILE_SCALES_AVX512_H_
