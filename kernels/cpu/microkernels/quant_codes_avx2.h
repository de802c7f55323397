// SPDX-License-Identifier: Apache-2.0
//
// Reads a tile's codes and zeros on AVX2: a lane a weight row, half a tile at a
// time; codes of 2 and 3 bits are decoded by one permute. Included by files
// compiled for it alone.

#ifndef QGEMM_KERNELS_CPU_MICROKERNELS_QUANT_CODES_AVX2_H_
#define QGEMM_KERNELS_CPU_MICROKERNELS_QUANT_CODES_AVX2_H_

#include <immintrin.h>
#include <stdint.h>

#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/tile_scales_avx2.h"

namespace qgemm::cpu {

// The entry that a code of 2 or 3 bits picks: `table` holds the first eight.
template <int kBits>
QGEMM_INLINE __m256 Decode(__m256i index, __m256 table) {
  static_assert(kBits == 2 || kBits == 3);
  return kBits == 2 ? _mm256_permutevar_ps(table, index)
                    : _mm256_permutevar8x32_ps(table, index);
}

// True if codes of 4 bits stand for whole numbers that rise by one, and so do
// the zeros: such codes have a summation order of their own.
QGEMM_INLINE bool HasWholeEntries(const TileArgs& args) {
  const float first = args.table[0];
  bool whole = args.zero_unit == 1 && first >= -16 && first <= 0 &&
               first == static_cast<float>(static_cast<int>(first));
  for (int i = 1; i < 16; ++i) {
    whole &= args.table[i] == first + static_cast<float>(i);
  }
  return whole;
}

// The zeros of eight rows, in the table's unit.
QGEMM_INLINE __m256 LoadZeros(const TileArgs& args, int64_t group, int half) {
  const uint8_t* zeros = args.zeros + group * kTileRows + half * kHalfRows;
  const __m256i words = _mm256_cvtepu8_epi32(
      _mm_loadl_epi64(reinterpret_cast<const __m128i*>(zeros)));
  return _mm256_mul_ps(_mm256_cvtepi32_ps(words),
                       _mm256_set1_ps(args.zero_unit));
}

// Word `w` of half a block of codes.
QGEMM_INLINE __m256i LoadWord(const uint8_t* codes, int w) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + 64 * w));
}

// The two codes that a block of 3- or 5-bit codes keeps in the top bits of
// its words' halves: code 30 in the low half, code 31 in the high one.
template <int kBits>
QGEMM_INLINE __m256i SpareCodes(const uint8_t* codes) {
  __m256i spare = _mm256_setzero_si256();
#pragma GCC unroll 5
  for (int w = 0; w < kBits; ++w) {
    const __m256i moved = _mm256_srli_epi32(LoadWord(codes, w), 15 - w);
    const __m256i bit = _mm256_set1_epi32(0x00010001 << w);
    spare = _mm256_or_si256(spare, _mm256_and_si256(moved, bit));
  }
  return spare;
}

// The codes of a pair, moved to bit `to` of their halves, among others. With
// kRead a code of 2 or 3 bits may come alone, moved by whole bytes by where it
// is read.
template <int kBits, bool kRead = false>
QGEMM_INLINE __m256i PairAt(const uint8_t* codes, int pair, int to) {
  constexpr int kPerHalf = 16 / kBits;
  const bool is_spare = pair == kPerHalf * kBits;
  const __m256i from =
      is_spare ? SpareCodes<kBits>(codes) : LoadWord(codes, pair / kPerHalf);
  const int right = (is_spare ? 0 : kBits * (pair % kPerHalf)) - to;
  if (kRead && !is_spare && right % 8 == 0) {
    return LoadWord(codes + right / 8, pair / kPerHalf);
  }
  return right < 0 ? _mm256_slli_epi32(from, -right)
                   : _mm256_srli_epi32(from, right);
}

// Element k of a block: number `pair` of its half (PlaceInPairs of
// code_packing.h).
struct ElementPlace {
  int k;
  int pair;
  int half;
};

template <int kBits>
constexpr ElementPlace PlaceOf(int pair, int half) {
  constexpr int kPerHalf = 16 / kBits;
  const int word = pair / kPerHalf;
  if (word == kBits) return {30 + half, 15, half};
  return {(2 * word + half) * kPerHalf + pair % kPerHalf, pair, half};
}

// Calls add(place, index) for both codes of a pair of half a block: the
// element's code is in the low bits of `index`. kRead is PairAt's.
template <int kBits, bool kRead = false, typename Add>
QGEMM_INLINE void VisitPair(const uint8_t* codes, int pair, const Add& add) {
  add(PlaceOf<kBits>(pair, 0), PairAt<kBits, kRead>(codes, pair, 0));
  add(PlaceOf<kBits>(pair, 1), PairAt<kBits, kRead>(codes, pair, -16));
}

// Asks for the weights that lie ahead of a block.
template <int kBits>
QGEMM_INLINE void PrefetchCodes(const uint8_t* block) {
#pragma GCC unroll 5
  for (int w = 0; w < kBits; ++w) {
    _mm_prefetch(reinterpret_cast<const char*>(block) + kPrefetchBytes + 64 * w,
                 _MM_HINT_T0);
  }
}

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_MICROKERNELS_QUANT_CODES_AVX2_H_
