// SPDX-License-Identifier: Apache-2.0
//
// Codes of 4 and 5 bits on AVX2, four in a lane. An instruction looks up 32
// bytes at once among 16, so entries of 24 bits are looked up byte by byte.
// Included by files compiled for it alone.

#ifndef QGEMM_KERNELS_CPU_MICROKERNELS_BYTE_TABLES_AVX2_H_
#define QGEMM_KERNELS_CPU_MICROKERNELS_BYTE_TABLES_AVX2_H_

#include <immintrin.h>
#include <stdint.h>

#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/quant_codes_avx2.h"

namespace qgemm::cpu {

constexpr int kBytes = 3;  // of an entry, from its second lowest byte on
constexpr int kEntriesOfPart = 16;

// Byte b of entries 16i..16i+15 in part[i][b], in either half of the register.
template <int kBits>
struct ByteTables {
  __m256i part[1 << (kBits - 4)][kBytes];
};

QGEMM_INLINE uint32_t EntryBits(const float* table, int i) {
  uint32_t bits;
  __builtin_memcpy(&bits, table + i, sizeof(bits));
  return bits;
}

template <int kBits>
QGEMM_INLINE ByteTables<kBits> LoadByteTables(const float* table) {
  ByteTables<kBits> tables;
  for (int i = 0; i < 1 << (kBits - 4); ++i) {
    for (int b = 0; b < kBytes; ++b) {
      alignas(16) uint8_t bytes[kEntriesOfPart];
      for (int j = 0; j < kEntriesOfPart; ++j) {
        bytes[j] = EntryBits(table, kEntriesOfPart * i + j) >> (8 * (b + 1));
      }
      tables.part[i][b] = _mm256_broadcastsi128_si256(
          _mm_load_si128(reinterpret_cast<const __m128i*>(bytes)));
    }
  }
  return tables;
}

// True if the lowest byte of LoadByteTables is zero in all entries, as it is
// in tables for bf16 activations.
QGEMM_INLINE bool HasTwoBytes(const float* table) {
  uint32_t used = 0;
  for (int i = 0; i < 32; ++i) used |= EntryBits(table, i);
  return (used & 0xff00) == 0;
}

// Byte b of the entries that 32 codes pick.
template <int kBits>
QGEMM_INLINE __m256i LookUp(__m256i codes, const ByteTables<kBits>& tables,
                            int b) {
  if constexpr (kBits == 4) {
    return _mm256_shuffle_epi8(tables.part[0][b], codes);
  } else {
    // An index with its top bit set picks zero.
    const __m256i low = _mm256_add_epi8(codes, _mm256_set1_epi8(0x70));
    const __m256i high = _mm256_sub_epi8(codes, _mm256_set1_epi8(16));
    return _mm256_or_si256(_mm256_shuffle_epi8(tables.part[0][b], low),
                           _mm256_shuffle_epi8(tables.part[1][b], high));
  }
}

// The codes of two pairs of a half block, one a byte: of a row the low half of
// either pair, then the high ones. Codes of 4 bits: p + 2 is q, of one word.
template <int kBits>
QGEMM_INLINE __m256i LoadCodes(const uint8_t* codes, int p, int q) {
  if constexpr (kBits == 4) {
    const __m256i word = LoadWord(codes, p / 4);
    return _mm256_and_si256(_mm256_srli_epi32(word, p % 4 * 4),
                            _mm256_set1_epi8(15));
  } else {
    return _mm256_or_si256(
        _mm256_and_si256(PairAt<kBits>(codes, p, 0), _mm256_set1_epi16(0x001f)),
        _mm256_and_si256(PairAt<kBits>(codes, q, 8),
                         _mm256_set1_epi16(0x1f00)));
  }
}

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_MICROKERNELS_BYTE_TABLES_AVX2_H_
