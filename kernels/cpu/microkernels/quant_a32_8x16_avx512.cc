// SPDX-License-Identifier: Apache-2.0
//
// Codes of 2 to 5 bits times fp32 activations on AVX-512: a lane a weight
// row, decoded by one permute of the codebook. Intrinsics only, nothing
// shared with files compiled for other instruction sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/quant_codes_avx512.h"
#include "kernels/cpu/microkernels/tile_scales_avx512.h"

namespace qgemm::cpu {
namespace {

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

  // `index` holds the element's code.
  inline __attribute__((always_inline)) void Add(
      ElementPlace from, __m512i index, const Codebook512& codebook,
      const float* const (&rows)[kMr], int64_t offset) {
    __m512 weight = Decode<kBits>(from, index, codebook);
    if constexpr (kZeros) weight = _mm512_sub_ps(weight, zero);
#pragma GCC unroll 8
    for (int r = 0; r < kMr; ++r) {
      const __m512 a = _mm512_set1_ps(rows[r][offset + from.k]);
      half_sums[from.half][r] =
          _mm512_fmadd_ps(weight, a, half_sums[from.half][r]);
    }
  }
};

template <int kMr>
QGEMM_INLINE void AddToSums(const __m512 (&chain)[kMr], float* sums) {
#pragma GCC unroll 8
  for (int r = 0; r < kMr; ++r) {
    float* sum = sums + r * kTileRows;
    _mm512_storeu_ps(sum, _mm512_add_ps(_mm512_loadu_ps(sum), chain[r]));
  }
}

// Adds kBlocks blocks, which are decoded in turn, to their chains.
template <int kBits, int kMr, bool kZeros, int kBlocks>
QGEMM_INLINE void AddBlocks(const TileArgs& args, const Codebook512& codebook,
                            const float* const (&rows)[kMr], int64_t first,
                            __m512 (&chain)[kMr]) {
  BlockSums<kBits, kMr, kZeros> sums[kBlocks];
#pragma GCC unroll 4
  for (int i = 0; i < kBlocks; ++i) {
    const int64_t group = (first + i) >> args.group_shift;
    sums[i] = BlockSums<kBits, kMr, kZeros>::Start(
        kZeros ? LoadZeros(args, group) : _mm512_setzero_ps());
  }
  const auto add = [&](ElementPlace from, int i, __m512i index)
      __attribute__((always_inline)) {
    sums[i].Add(from, index, codebook, rows, (first + i) * kBlockElements);
  };
  VisitCodes<kBits, kBlocks>(args.codes + first * (64 * kBits), add);
#pragma GCC unroll 4
  for (int i = 0; i < kBlocks; ++i) {
    const __m512 scale = LoadScales(args, (first + i) >> args.group_shift);
#pragma GCC unroll 8
    for (int r = 0; r < kMr; ++r) {
      const __m512 sum =
          _mm512_add_ps(sums[i].half_sums[0][r], sums[i].half_sums[1][r]);
      chain[r] = _mm512_fmadd_ps(sum, scale, chain[r]);
    }
  }
}

template <int kBits, int kMr, bool kZeros>
void Run(const TileArgs* args) {
  // The sums of one block of few rows alone would wait for their additions.
  // From memory one row of 4 or 5 bits is slower with more blocks, as is one of
  // other widths with more than these.
  constexpr int kOfOneRow = kZeros || kBits == 3 ? 2 : kBits == 2 ? 4 : 1;
  constexpr int kAtOnce = kMr == 1 ? kOfOneRow : kMr == 2 ? 2 : 1;
  const Codebook512 codebook = LoadCodebook<kBits>(args->table);
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
    int64_t block = begin;
    for (; block + kAtOnce <= end; block += kAtOnce) {
      AddBlocks<kBits, kMr, kZeros, kAtOnce>(*args, codebook, rows, block,
                                             chain);
    }
    for (; block < end; ++block) {
      AddBlocks<kBits, kMr, kZeros, 1>(*args, codebook, rows, block, chain);
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
