// SPDX-License-Identifier: Apache-2.0
//
// Reads dense weights on AVX2. Included by files compiled for it alone.

#ifndef QGEMM_KERNELS_CPU_MICROKERNELS_DENSE_WEIGHTS_AVX2_H_
#define QGEMM_KERNELS_CPU_MICROKERNELS_DENSE_WEIGHTS_AVX2_H_

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/tile_scales_avx2.h"

namespace qgemm::cpu {

// 8 fp16 or bf16 elements, whichever kFamily multiplies, as fp32.
template <int kFamily>
QGEMM_INLINE __m256 LoadWeights(const uint8_t* elements) {
  const __m128i halves =
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(elements));
  if constexpr (kFamily == kFamilyFloat16) {
    return _mm256_cvtph_ps(halves);
  } else {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
}

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_MICROKERNELS_DENSE_WEIGHTS_AVX2_H_
