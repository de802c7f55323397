// SPDX-License-Identifier: Apache-2.0
//
// Reads a tile's codes and zeros on AVX-512: a lane a weight row, decoded by
// one permute of the codebook. Included by files compiled for it alone.

#ifndef QGEMM_KERNELS_CPU_MICROKERNELS_QUANT_CODES_AVX512_H_
#define QGEMM_KERNELS_CPU_MICROKERNELS_QUANT_CODES_AVX512_H_

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/tile_scales_avx512.h"

namespace qgemm::cpu {

struct Codebook512 {
  __m512 low;   // entries 0..15
  __m512 high;  // entries 16..31
};

template <int kBits>
QGEMM_INLINE __m512 Decode(__m512i index, const Codebook512& codebook) {
  if constexpr (kBits == 5) {
    return _mm512_permutex2var_ps(codebook.low, index, codebook.high);
  } else {
    return _mm512_permutexvar_ps(index, codebook.low);
  }
}

// The zeros of a group, in the table's unit.
QGEMM_INLINE __m512 LoadZeros(const TileArgs& args, int64_t group) {
  const __m512i zeros = _mm512_cvtepu8_epi32(_mm_loadu_si128(
      reinterpret_cast<const __m128i*>(args.zeros + group * 16)));
  return _mm512_mul_ps(_mm512_cvtepi32_ps(zeros),
                       _mm512_set1_ps(args.zero_unit));
}

// The two codes that a block of 3- or 5-bit codes keeps in the top bits of
// its words' halves: code 30 in the low half, code 31 in the high one.
template <int kBits>
QGEMM_INLINE __m512i SpareCodes(const __m512i (&words)[kBits]) {
  __m512i spare = _mm512_setzero_si512();
#pragma GCC unroll 5
  for (int w = 0; w < kBits; ++w) {
    const __m512i moved = _mm512_srli_epi32(words[w], 15 - w);
    const __m512i bit = _mm512_set1_epi32(0x00010001 << w);
    spare = _mm512_or_si512(spare, _mm512_and_si512(moved, bit));
  }
  return spare;
}

// Element k of a block: number `pair` of its half (PlaceInPairs of
// code_packing.h).
struct ElementPlace {
  int k;
  int pair;
  int half;
};

// Calls add(place, index) for each code of a block, in the order of its words:
// the element's code is in the low bits of `index`.
template <int kBits, typename Add>
QGEMM_INLINE void VisitCodes(const uint8_t* codes, const Add& add) {
  constexpr int kPerHalf = 16 / kBits;
  __m512i words[kBits];
#pragma GCC unroll 5
  for (int w = 0; w < kBits; ++w) {
    words[w] = _mm512_loadu_si512(codes + 64 * w);
    _mm_prefetch(reinterpret_cast<const char*>(codes) + kPrefetchBytes + 64 * w,
                 _MM_HINT_T0);
#pragma GCC unroll 16
    for (int j = 0; j < 2 * kPerHalf; ++j) {
      const int half = j / kPerHalf;
      const int pair = w * kPerHalf + j % kPerHalf;
      const int shift = 16 * half + kBits * (j % kPerHalf);
      add(ElementPlace{2 * kPerHalf * w + j, pair, half},
          _mm512_srli_epi32(words[w], shift));
    }
  }
  if constexpr (kPerHalf * kBits < 16) {
    const __m512i spare = SpareCodes<kBits>(words);
    add(ElementPlace{30, 15, 0}, spare);
    add(ElementPlace{31, 15, 1}, _mm512_srli_epi32(spare, 16));
  }
}

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_MICROKERNELS_QUANT_CODES_AVX512_H_
