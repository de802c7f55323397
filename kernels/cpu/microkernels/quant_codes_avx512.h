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

// Codes of 2 bits: what the lower and the upper code of four bits stand for, so
// that one shift serves two permutes. Else entries 0..15 and 16..31.
struct Codebook512 {
  __m512 low;
  __m512 high;
};

template <int kBits>
QGEMM_INLINE Codebook512 LoadCodebook(const float* table) {
  const __m512 low = _mm512_loadu_ps(table);
  if constexpr (kBits != 2) return {low, _mm512_loadu_ps(table + 16)};
  const __m512i upper =
      _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
  return {low, _mm512_permutexvar_ps(upper, low)};
}

// Element k of a block: number `pair` of its half (PlaceInPairs of
// code_packing.h).
struct ElementPlace {
  int k;
  int pair;
  int half;
};

template <int kBits>
QGEMM_INLINE __m512 Decode(ElementPlace from, __m512i index,
                           const Codebook512& codebook) {
  if constexpr (kBits == 5) {
    return _mm512_permutex2var_ps(codebook.low, index, codebook.high);
  } else if constexpr (kBits == 2) {
    return _mm512_permutexvar_ps(
        index, from.pair % 2 == 0 ? codebook.low : codebook.high);
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

// Calls add(place, i, index) for each code of kBlocks neighbouring blocks i, in
// the order of their words and in turn: Decode finds the element's code in the
// low bits of `index`.
template <int kBits, int kBlocks, typename Add>
QGEMM_INLINE void VisitCodes(const uint8_t* codes, const Add& add) {
  constexpr int kPerHalf = 16 / kBits;
  __m512i words[kBlocks][kBits];
#pragma GCC unroll 5
  for (int w = 0; w < kBits; ++w) {
#pragma GCC unroll 4
    for (int i = 0; i < kBlocks; ++i) {
      const uint8_t* word = codes + 64 * (i * kBits + w);
      words[i][w] = _mm512_loadu_si512(word);
      asm("" : "+v"(words[i][w]));  // or each shift would load it anew
      _mm_prefetch(reinterpret_cast<const char*>(word) + kPrefetchBytes,
                   _MM_HINT_T0);
    }
#pragma GCC unroll 16
    for (int j = 0; j < 2 * kPerHalf; ++j) {
      const int half = j / kPerHalf;
      const int pair = w * kPerHalf + j % kPerHalf;
      const int first = kBits == 2 ? j & -2 : j;  // code of the index
      const int shift = 16 * half + kBits * (first % kPerHalf);
#pragma GCC unroll 4
      for (int i = 0; i < kBlocks; ++i) {
        add(ElementPlace{2 * kPerHalf * w + j, pair, half}, i,
            _mm512_srli_epi32(words[i][w], shift));
      }
    }
  }
  if constexpr (kPerHalf * kBits < 16) {
#pragma GCC unroll 4
    for (int i = 0; i < kBlocks; ++i) {
      const __m512i spare = SpareCodes<kBits>(words[i]);
      add(ElementPlace{30, 15, 0}, i, spare);
      add(ElementPlace{31, 15, 1}, i, _mm512_srli_epi32(spare, 16));
    }
  }
}

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_MICROKERNELS_QUANT_CODES_AVX512_H_
