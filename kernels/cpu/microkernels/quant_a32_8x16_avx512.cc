// SPDX-License-Identifier: Apache-2.0
//
// Codes of 2 to 5 bits times fp32 activations on AVX-512: a lane a weight
// row, decoded by one permute of the codebook. Intrinsics only, nothing
// shared with files compiled for other instruction sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"

namespace qgemm::cpu {
namespace {

#define QGEMM_INLINE static inline __attribute__((always_inline))

struct Codebook {
  __m512 low;   // entries 0..15
  __m512 high;  // entries 16..31
};

template <int kBits>
QGEMM_INLINE __m512 Decode(__m512i index, const Codebook& codebook) {
  if constexpr (kBits == 5) {
    return _mm512_permutex2var_ps(codebook.low, index, codebook.high);
  } else {
    return _mm512_permutexvar_ps(index, codebook.low);
  }
}

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

QGEMM_INLINE __m512 LoadZeros(const TileArgs& args, int64_t group) {
  const __m512i zeros = _mm512_cvtepu8_epi32(_mm_loadu_si128(
      reinterpret_cast<const __m128i*>(args.zeros + group * 16)));
  return _mm512_mul_ps(_mm512_cvtepi32_ps(zeros),
                       _mm512_set1_ps(args.zero_unit));
}

// The sums of one block while it is being read.
template <int kBits, int kMr, bool kZeros>
struct BlockSums {
  __m512 half_sums[2][kMr];
  __m512 zero;

  static inline __attribute__((always_inline)) BlockSums Start(__m512 zero) {
    BlockSums sums;
    sums.zero = zero;
#pragma GCC unroll 8
    for (int r = 0; r < kMr; ++r) {
      sums.half_sums[0][r] = _mm512_setzero_ps();
      sums.half_sums[1][r] = _mm512_setzero_ps();
    }
    return sums;
  }

  // `index` holds the code of element k, from `word_half` of its word, in its
  // low bits.
  inline __attribute__((always_inline)) void Add(
      int k, int word_half, __m512i index, const Codebook& codebook,
      const float* const (&rows)[kMr], int64_t offset) {
    __m512 weight = Decode<kBits>(index, codebook);
    if constexpr (kZeros) weight = _mm512_sub_ps(weight, zero);
#pragma GCC unroll 8
    for (int r = 0; r < kMr; ++r) {
      const __m512 a = _mm512_set1_ps(rows[r][offset + k]);
      half_sums[word_half][r] =
          _mm512_fmadd_ps(weight, a, half_sums[word_half][r]);
    }
  }
};

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

template <int kBits, int kMr, bool kZeros>
QGEMM_INLINE void AddBlock(const uint8_t* codes, const Codebook& codebook,
                           const float* const (&rows)[kMr], int64_t offset,
                           BlockSums<kBits, kMr, kZeros>& sums) {
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
      const int shift = 16 * half + kBits * (j % kPerHalf);
      sums.Add(2 * kPerHalf * w + j, half, _mm512_srli_epi32(words[w], shift),
               codebook, rows, offset);
    }
  }
  if constexpr (kPerHalf * kBits < 16) {
    const __m512i spare = SpareCodes<kBits>(words);
    sums.Add(30, 0, spare, codebook, rows, offset);
    sums.Add(31, 1, _mm512_srli_epi32(spare, 16), codebook, rows, offset);
  }
}

template <int kMr>
QGEMM_INLINE void AddToSums(const __m512 (&chain)[kMr], float* sums) {
#pragma GCC unroll 8
  for (int r = 0; r < kMr; ++r) {
    float* sum = sums + r * kTileRows;
    _mm512_storeu_ps(sum, _mm512_add_ps(_mm512_loadu_ps(sum), chain[r]));
  }
}

template <int kBits, int kMr, bool kZeros>
void Run(const TileArgs* args) {
  const Codebook codebook = {_mm512_loadu_ps(args->table),
                             _mm512_loadu_ps(args->table + 16)};
  const float* rows[kMr];
#pragma GCC unroll 8
  for (int r = 0; r < kMr; ++r) {
    rows[r] = args->a + r * args->a_stride;
    _mm512_storeu_ps(args->sums + r * kTileRows, _mm512_setzero_ps());
  }
  for (int64_t begin = 0; begin < args->blocks; begin += kChunkBlocks) {
    const int64_t left = args->blocks - begin;
    const int64_t end = begin + (left < kChunkBlocks ? left : kChunkBlocks);
    __m512 chain[kMr];
#pragma GCC unroll 8
    for (int r = 0; r < kMr; ++r) chain[r] = _mm512_setzero_ps();
    for (int64_t block = begin; block < end; ++block) {
      const int64_t group = block >> args->group_shift;
      auto sums = BlockSums<kBits, kMr, kZeros>::Start(
          kZeros ? LoadZeros(*args, group) : _mm512_setzero_ps());
      AddBlock<kBits, kMr, kZeros>(args->codes + block * (64 * kBits), codebook,
                                   rows, block * kBlockElements, sums);
      const __m512 scale = LoadScales(*args, group);
#pragma GCC unroll 8
      for (int r = 0; r < kMr; ++r) {
        const __m512 sum =
            _mm512_add_ps(sums.half_sums[0][r], sums.half_sums[1][r]);
        chain[r] = _mm512_fmadd_ps(sum, scale, chain[r]);
      }
    }
    AddToSums<kMr>(chain, args->sums);
  }
}

// The same as the tile unit does it: without subnormals. Not inlined into it,
// so that no arithmetic moves out of the bracket.
template <int kBits, bool kZeros>
void RunFlushed(const TileArgs* args) {
  constexpr unsigned kFlushBits = 0x8040;  // results and operands
  const unsigned control = _mm_getcsr();
  _mm_setcsr(control | kFlushBits);
  void (*volatile run)(const TileArgs*) = Run<kBits, 1, kZeros>;
  run(args);
  _mm_setcsr(control);
}

#define QGEMM_ROW(bits, mr)                                           \
  {"w" #bits "a32_" #mr "x16_avx512",                                 \
   kFamilyQuantA32,                                                   \
   bits,                                                              \
   0,                                                                 \
   mr,                                                                \
   Run<bits, mr, false>},                                             \
  {                                                                   \
    "w" #bits "a32z_" #mr "x16_avx512", kFamilyQuantA32, bits, 1, mr, \
        Run<bits, mr, true>                                           \
  }
#define QGEMM_ROWS(bits) \
  QGEMM_ROW(bits, 8), QGEMM_ROW(bits, 4), QGEMM_ROW(bits, 2), QGEMM_ROW(bits, 1)

constexpr Microkernel kRows[] = {QGEMM_ROWS(2), QGEMM_ROWS(3), QGEMM_ROWS(4),
                                 QGEMM_ROWS(5)};

constexpr Microkernel kFlushedRows[] = {
    {"w2abf16_1x16_avx512", kFamilyQuantABFloat16, 2, 0, 1,
     RunFlushed<2, false>},
    {"w3abf16_1x16_avx512", kFamilyQuantABFloat16, 3, 0, 1,
     RunFlushed<3, false>},
    {"w4abf16_1x16_avx512", kFamilyQuantABFloat16, 4, 0, 1,
     RunFlushed<4, false>},
    {"w4abf16z_1x16_avx512", kFamilyQuantABFloat16, 4, 1, 1,
     RunFlushed<4, true>},
    {"w5abf16_1x16_avx512", kFamilyQuantABFloat16, 5, 0, 1,
     RunFlushed<5, false>},
};

}  // namespace

MicrokernelRows QuantABFloat16Avx512Rows() {
  return {kFlushedRows, sizeof(kFlushedRows) / sizeof(kFlushedRows[0])};
}

MicrokernelRows QuantA32Avx512Rows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
