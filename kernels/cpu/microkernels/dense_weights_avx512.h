// SPDX-License-Identifier: Apache-2.0
//
// Reads dense weights on AVX-512. Included by files compiled for it alone.

#ifndef QGEMM_KERNELS_CPU_MICROKERNELS_DENSE_WEIGHTS_AVX512_H_
#define QGEMM_KERNELS_CPU_MICROKERNELS_DENSE_WEIGHTS_AVX512_H_

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/tile_scales_avx512.h"

namespace qgemm::cpu {

// 16 fp16 or bf16 elements, whichever kFamily multiplies, as fp32.
template <int kFamily>
QGEMM_INLINE __m512 LoadWeights(const uint8_t* elements) {
  const __m256i halves =
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(elements));
  if constexpr (kFamily == kFamilyFloat16) {
    return _mm512_cvtph_ps(halves);
  } else {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
}

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_MICROKERNELS_DENSE_WEIGHTS_AVX512_H_
