// SPDX-License-Identifier: Apache-2.0
//
// Reads a tile's codes in pairs on AVX-512: one shift brings a pair of a row to
// the low ends of a word's halves, one permute looks up what both stand for, in
// bf16. Included by files compiled for it alone.

#ifndef QGEMM_KERNELS_CPU_MICROKERNELS_QUANT_PAIRS_AVX512_H_
#define QGEMM_KERNELS_CPU_MICROKERNELS_QUANT_PAIRS_AVX512_H_

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/quant_codes_avx512.h"
#include "kernels/cpu/microkernels/tile_scales_avx512.h"

namespace qgemm::cpu {

// bf16 tables that an index of VisitPairs picks from (TileArgs).
template <int kTableParts>
struct PairCodebook {
  __m512i high;
  __m512i low;
};

template <int kTableParts>
QGEMM_INLINE PairCodebook<kTableParts> LoadPairCodebook(const TileArgs& args) {
  PairCodebook<kTableParts> codebook;
  codebook.high = _mm512_loadu_si512(args.table_high);
  if constexpr (kTableParts == 2) {
    codebook.low = _mm512_loadu_si512(args.table_low);
  }
  return codebook;
}

// A group's zeros, in both halves of each word.
QGEMM_INLINE __m512i LoadZeroCodes(const TileArgs& args, int64_t group) {
  const __m512i words = _mm512_cvtepu8_epi32(_mm_loadu_si128(
      reinterpret_cast<const __m128i*>(args.zeros + group * kTileRows)));
  return _mm512_or_si512(words, _mm512_slli_epi32(words, 16));
}

template <int kBits, bool kZeros>
QGEMM_INLINE __m512i IndexOf(__m512i moved, __m512i zeros) {
  if constexpr (kZeros) {
    const __m512i code = _mm512_set1_epi16((1 << kBits) - 1);
    return _mm512_sub_epi16(_mm512_and_si512(moved, code), zeros);
  }
  return moved;
}

// Calls add(pair, index) for the 16 pairs of a block, in the order of
// PlaceInPairs (code_packing.h). The low 5 bits of each half of `index` pick
// from a table of bf16 entries (TileArgs).
template <int kBits, bool kZeros, typename Add>
QGEMM_INLINE void VisitPairs(const TileArgs& args, int64_t block,
                             const Add& add) {
  constexpr int kPerHalf = 16 / kBits;
  const __m512i zeros = kZeros ? LoadZeroCodes(args, block >> args.group_shift)
                               : _mm512_setzero_si512();
  const uint8_t* codes = args.codes + block * (64 * kBits);
  __m512i words[kBits];
#pragma GCC unroll 5
  for (int w = 0; w < kBits; ++w) {
    words[w] = _mm512_loadu_si512(codes + 64 * w);
    asm("" : "+v"(words[w]));  // or each shift would load it anew
    _mm_prefetch(reinterpret_cast<const char*>(codes) + kPrefetchBytes + 64 * w,
                 _MM_HINT_T0);
#pragma GCC unroll 8
    for (int j = 0; j < kPerHalf; ++j) {
      const __m512i moved = _mm512_srli_epi32(words[w], kBits * j);
      add(w * kPerHalf + j, IndexOf<kBits, kZeros>(moved, zeros));
    }
  }
  if constexpr (kPerHalf * kBits < 16) add(15, SpareCodes<kBits>(words));
}

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_MICROKERNELS_QUANT_PAIRS_AVX512_H_
