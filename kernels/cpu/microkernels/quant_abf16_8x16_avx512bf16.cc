// SPDX-License-Identifier: Apache-2.0
//
// Codes of 2 to 5 bits times bf16 activations by AVX-512's products of bf16
// pairs, which add in fp32 without subnormals: one shift, one permute and one
// product for two columns of 16 weight rows. Intrinsics only, nothing shared
// with files compiled for other instruction sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/quant_pairs_avx512.h"
#include "kernels/cpu/microkernels/tile_scales_avx512.h"

namespace qgemm::cpu {
namespace {

// As many rows as registers hold two sums for beside weights. Measured 6, 8
// and 12: with more, the compiler keeps sums in memory.
constexpr int kMostRows = 8;

// A pair of activations, in every lane.
QGEMM_INLINE __m512bh LoadPair(const uint16_t* pair) {
  int32_t word;
  __builtin_memcpy(&word, pair, sizeof(word));
  return (__m512bh)_mm512_set1_epi32(word);
}

// Adds a block's scaled products with kMr rows to their chains. Even and odd
// pairs are summed apart: one sum would wait for its additions.
template <int kBits, bool kZeros, int kMr>
QGEMM_INLINE void AddBlock(const TileArgs& args, int64_t block,
                           __m512i codebook, __m512 (&chain)[kMr]) {
  const uint16_t* a = args.parts + block * args.part_block;
  __m512 even[kMr];
  __m512 odd[kMr];
#pragma GCC unroll 8
  for (int r = 0; r < kMr; ++r) {
    even[r] = _mm512_setzero_ps();
    odd[r] = _mm512_setzero_ps();
  }
  const auto add = [&](int pair, __m512i index) __attribute__((always_inline)) {
    const __m512bh weights =
        (__m512bh)_mm512_permutexvar_epi16(index, codebook);
    __m512* sums = pair % 2 == 0 ? even : odd;
#pragma GCC unroll 8
    for (int r = 0; r < kMr; ++r) {
      sums[r] = _mm512_dpbf16_ps(sums[r], weights,
                                 LoadPair(a + r * kBlockElements + 2 * pair));
    }
  };
  VisitPairs<kBits, kZeros>(args, block, add);
  const __m512 scale = LoadScales(args, block >> args.group_shift);
#pragma GCC unroll 8
  for (int r = 0; r < kMr; ++r) {
    chain[r] = _mm512_fmadd_ps(_mm512_add_ps(even[r], odd[r]), scale, chain[r]);
  }
}

template <int kBits, bool kZeros, int kMr>
void RunRows(const TileArgs& args) {
  const __m512i codebook = _mm512_loadu_si512(args.table_high);
#pragma GCC unroll 8
  for (int r = 0; r < kMr; ++r) {
    _mm512_storeu_ps(args.sums + r * kTileRows, _mm512_setzero_ps());
  }
  for (int64_t begin = 0; begin < args.blocks; begin += kChunkBlocks) {
    const int64_t left = args.blocks - begin;
    const int64_t end = begin + (left < kChunkBlocks ? left : kChunkBlocks);
    __m512 chain[kMr];
#pragma GCC unroll 8
    for (int r = 0; r < kMr; ++r) chain[r] = _mm512_setzero_ps();
    for (int64_t block = begin; block < end; ++block) {
      AddBlock<kBits, kZeros, kMr>(args, block, codebook, chain);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kMr; ++r) {
      float* sum = args.sums + r * kTileRows;
      _mm512_storeu_ps(sum, _mm512_add_ps(_mm512_loadu_ps(sum), chain[r]));
    }
  }
}

// RunRows of kMr rows or, if there are fewer, of so many.
template <int kBits, bool kZeros, int kMr>
void RunUpTo(const TileArgs& args) {
  if constexpr (kMr > 1) {
    if (args.rows < kMr) return RunUpTo<kBits, kZeros, kMr - 1>(args);
  }
  RunRows<kBits, kZeros, kMr>(args);
}

template <int kBits, bool kZeros>
void Run(const TileArgs* args) {
  RunUpTo<kBits, kZeros, kMostRows>(*args);
}

#define QGEMM_ROW(bits, suffix, zeros, has_zeros)                             \
  {                                                                           \
    "w" #bits "abf16" suffix "_8x16_avx512bf16", kFamilyQuantABFloat16, bits, \
        has_zeros, kMostRows, Run<bits, zeros>, 1, kFormParts, kMostRows      \
  }

constexpr Microkernel kRows[] = {
    QGEMM_ROW(2, "", false, 0), QGEMM_ROW(3, "", false, 0),
    QGEMM_ROW(4, "", false, 0), QGEMM_ROW(5, "", false, 0),
    QGEMM_ROW(4, "z", true, 1)};

}  // namespace

MicrokernelRows QuantABFloat16Avx512Bf16Rows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
