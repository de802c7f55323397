// SPDX-License-Identifier: Apache-2.0
//
// Codes of 2 to 5 bits times fp32 activations on AVX2: a tile is two halves
// of 8 rows, decoded by permutes of 8 entries and blends. Intrinsics only,
// nothing shared with files compiled for other instruction sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"

namespace qgemm::cpu {
namespace {

#define QGEMM_INLINE static inline __attribute__((always_inline))

constexpr int kHalfRows = 8;

// Entries 8i..8i+7 in part i.
struct Codebook {
  __m256 part[4];
};

// The entry that bits 0..2 of `index` pick from part `bit 3` of a pair.
QGEMM_INLINE __m256 Decode16(__m256i index, __m256 low, __m256 high) {
  const __m256 select = _mm256_castsi256_ps(_mm256_slli_epi32(index, 28));
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, index),
                          _mm256_permutevar8x32_ps(high, index), select);
}

template <int kBits>
QGEMM_INLINE __m256 Decode(__m256i index, const Codebook& codebook) {
  if constexpr (kBits <= 3) {
    return _mm256_permutevar8x32_ps(codebook.part[0], index);
  } else if constexpr (kBits == 4) {
    return Decode16(index, codebook.part[0], codebook.part[1]);
  } else {
    const __m256 select = _mm256_castsi256_ps(_mm256_slli_epi32(index, 27));
    return _mm256_blendv_ps(Decode16(index, codebook.part[0], codebook.part[1]),
                            Decode16(index, codebook.part[2], codebook.part[3]),
                            select);
  }
}

QGEMM_INLINE __m256 FromHalves(const uint8_t* halves) {
  return _mm256_cvtph_ps(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)));
}

// Eight scales; `half` is 0 for rows 0..7 of the tile, 1 for the others.
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

QGEMM_INLINE __m256 LoadZeros(const TileArgs& args, int64_t group, int half) {
  const uint8_t* zeros = args.zeros + group * kTileRows + half * kHalfRows;
  const __m256i words = _mm256_cvtepu8_epi32(
      _mm_loadl_epi64(reinterpret_cast<const __m128i*>(zeros)));
  return _mm256_mul_ps(_mm256_cvtepi32_ps(words),
                       _mm256_set1_ps(args.zero_unit));
}

// The sums of one half block while it is being read.
template <int kBits, int kMr, bool kZeros>
struct BlockSums {
  __m256 half_sums[2][kMr];
  __m256 zero;

  static inline __attribute__((always_inline)) BlockSums Start(__m256 zero) {
    BlockSums sums;
    sums.zero = zero;
#pragma GCC unroll 4
    for (int r = 0; r < kMr; ++r) {
      sums.half_sums[0][r] = _mm256_setzero_ps();
      sums.half_sums[1][r] = _mm256_setzero_ps();
    }
    return sums;
  }

  // `index` holds the code of element k, from `word_half` of its word, in its
  // low bits.
  inline __attribute__((always_inline)) void Add(
      int k, int word_half, __m256i index, const Codebook& codebook,
      const float* const (&rows)[kMr], int64_t offset) {
    __m256 weight = Decode<kBits>(index, codebook);
    if constexpr (kZeros) weight = _mm256_sub_ps(weight, zero);
#pragma GCC unroll 4
    for (int r = 0; r < kMr; ++r) {
      const __m256 a = _mm256_set1_ps(rows[r][offset + k]);
      half_sums[word_half][r] =
          _mm256_fmadd_ps(weight, a, half_sums[word_half][r]);
    }
  }
};

// The two codes that a block of 3- or 5-bit codes keeps in the top bits of
// its words' halves: code 30 in the low half, code 31 in the high one.
template <int kBits>
QGEMM_INLINE __m256i SpareCodes(const __m256i (&words)[kBits]) {
  __m256i spare = _mm256_setzero_si256();
#pragma GCC unroll 5
  for (int w = 0; w < kBits; ++w) {
    const __m256i moved = _mm256_srli_epi32(words[w], 15 - w);
    const __m256i bit = _mm256_set1_epi32(0x00010001 << w);
    spare = _mm256_or_si256(spare, _mm256_and_si256(moved, bit));
  }
  return spare;
}

template <int kBits, int kMr, bool kZeros>
QGEMM_INLINE void AddBlock(const uint8_t* codes, const Codebook& codebook,
                           const float* const (&rows)[kMr], int64_t offset,
                           BlockSums<kBits, kMr, kZeros>& sums) {
  constexpr int kPerHalf = 16 / kBits;
  __m256i words[kBits];
#pragma GCC unroll 5
  for (int w = 0; w < kBits; ++w) {
    words[w] =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + 64 * w));
    _mm_prefetch(reinterpret_cast<const char*>(codes) + kPrefetchBytes + 64 * w,
                 _MM_HINT_T0);
#pragma GCC unroll 16
    for (int j = 0; j < 2 * kPerHalf; ++j) {
      const int half = j / kPerHalf;
      const int shift = 16 * half + kBits * (j % kPerHalf);
      sums.Add(2 * kPerHalf * w + j, half, _mm256_srli_epi32(words[w], shift),
               codebook, rows, offset);
    }
  }
  if constexpr (kPerHalf * kBits < 16) {
    const __m256i spare = SpareCodes<kBits>(words);
    sums.Add(30, 0, spare, codebook, rows, offset);
    sums.Add(31, 1, _mm256_srli_epi32(spare, 16), codebook, rows, offset);
  }
}

// One block of one half into its chain.
template <int kBits, int kMr, bool kZeros>
QGEMM_INLINE void AddHalfBlock(const TileArgs& args, const Codebook& codebook,
                               const float* const (&rows)[kMr], int64_t block,
                               int half, __m256 (&chain)[2][kMr]) {
  const int64_t group = block >> args.group_shift;
  auto sums = BlockSums<kBits, kMr, kZeros>::Start(
      kZeros ? LoadZeros(args, group, half) : _mm256_setzero_ps());
  AddBlock<kBits, kMr, kZeros>(args.codes + block * (64 * kBits) + half * 32,
                               codebook, rows, block * kBlockElements, sums);
  const __m256 scale = LoadScales(args, group, half);
#pragma GCC unroll 4
  for (int r = 0; r < kMr; ++r) {
    const __m256 sum =
        _mm256_add_ps(sums.half_sums[0][r], sums.half_sums[1][r]);
    chain[half][r] = _mm256_fmadd_ps(sum, scale, chain[half][r]);
  }
}

template <int kMr>
QGEMM_INLINE void AddToSums(const __m256 (&chain)[2][kMr], float* sums) {
#pragma GCC unroll 4
  for (int r = 0; r < kMr; ++r) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      float* sum = sums + r * kTileRows + half * kHalfRows;
      _mm256_storeu_ps(sum,
                       _mm256_add_ps(_mm256_loadu_ps(sum), chain[half][r]));
    }
  }
}

QGEMM_INLINE Codebook LoadCodebook(const float* table) {
  return {{_mm256_loadu_ps(table), _mm256_loadu_ps(table + 8),
           _mm256_loadu_ps(table + 16), _mm256_loadu_ps(table + 24)}};
}

template <int kBits, int kMr, bool kZeros>
void Run(const TileArgs* args) {
  const Codebook codebook = LoadCodebook(args->table);
  const float* rows[kMr];
#pragma GCC unroll 4
  for (int r = 0; r < kMr; ++r) rows[r] = args->a + r * args->a_stride;
  for (int i = 0; i < kMr * kTileRows; ++i) args->sums[i] = 0;
  for (int64_t begin = 0; begin < args->blocks; begin += kChunkBlocks) {
    const int64_t left = args->blocks - begin;
    const int64_t end = begin + (left < kChunkBlocks ? left : kChunkBlocks);
    __m256 chain[2][kMr];
#pragma GCC unroll 4
    for (int r = 0; r < kMr; ++r) {
      chain[0][r] = _mm256_setzero_ps();
      chain[1][r] = _mm256_setzero_ps();
    }
    for (int64_t block = begin; block < end; ++block) {
      AddHalfBlock<kBits, kMr, kZeros>(*args, codebook, rows, block, 0, chain);
      AddHalfBlock<kBits, kMr, kZeros>(*args, codebook, rows, block, 1, chain);
    }
    AddToSums<kMr>(chain, args->sums);
  }
}

#define QGEMM_ROW(bits, mr)                                         \
  {"w" #bits "a32_" #mr "x16_avx2",                                 \
   kFamilyQuantA32,                                                 \
   bits,                                                            \
   0,                                                               \
   mr,                                                              \
   Run<bits, mr, false>},                                           \
  {                                                                 \
    "w" #bits "a32z_" #mr "x16_avx2", kFamilyQuantA32, bits, 1, mr, \
        Run<bits, mr, true>                                         \
  }
#define QGEMM_ROWS(bits) \
  QGEMM_ROW(bits, 4), QGEMM_ROW(bits, 2), QGEMM_ROW(bits, 1)

constexpr Microkernel kRows[] = {QGEMM_ROWS(2), QGEMM_ROWS(3), QGEMM_ROWS(4),
                                 QGEMM_ROWS(5)};

}  // namespace

MicrokernelRows QuantA32Avx2Rows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
