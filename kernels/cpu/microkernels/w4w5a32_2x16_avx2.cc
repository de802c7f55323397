// SPDX-License-Identifier: Apache-2.0
//
// Codes of 4 and 5 bits times one or two rows of fp32 activations on AVX2. An
// instruction looks up 32 bytes at once among 16, so entries of 24 bits are
// looked up byte by byte, four codes of a row in a lane, and interleaved: four
// columns of a row side by side, which are the quarters of a block. Intrinsics
// only, nothing shared with files compiled for other instruction sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/byte_tables_avx2.h"
#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/quant_codes_avx2.h"
#include "kernels/cpu/microkernels/tile_scales_avx2.h"
#include "kernels/cpu/microkernels/whole_codes_avx2.h"

namespace qgemm::cpu {
namespace {

// Rows i and i + 4 of a half tile, four columns of each.
using RowColumns = __m256[4];

template <int kBits, bool kTwoBytes>
QGEMM_INLINE void Decode(__m256i codes, const ByteTables<kBits>& tables,
                         RowColumns& weights) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i top = LookUp<kBits>(codes, tables, 2);
  const __m256i next = LookUp<kBits>(codes, tables, 1);
  const __m256i last = kTwoBytes ? zero : LookUp<kBits>(codes, tables, 0);
  const __m256i upper[2] = {_mm256_unpacklo_epi8(next, top),
                            _mm256_unpackhi_epi8(next, top)};
  const __m256i lower[2] = {
      kTwoBytes ? zero : _mm256_unpacklo_epi8(zero, last),
      kTwoBytes ? zero : _mm256_unpackhi_epi8(zero, last)};
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    weights[2 * i] =
        _mm256_castsi256_ps(_mm256_unpacklo_epi16(lower[i], upper[i]));
    weights[2 * i + 1] =
        _mm256_castsi256_ps(_mm256_unpackhi_epi16(lower[i], upper[i]));
  }
}

// The zeros of eight rows, each where its columns are.
QGEMM_INLINE void SpreadZeros(__m256 zeros, RowColumns& spread) {
  spread[0] = _mm256_permute_ps(zeros, 0x00);
  spread[1] = _mm256_permute_ps(zeros, 0x55);
  spread[2] = _mm256_permute_ps(zeros, 0xaa);
  spread[3] = _mm256_permute_ps(zeros, 0xff);
}

// The sums of one half block and kMr rows. `a` holds the low halves of its
// pairs, then the high ones; the next row's are `a_stride` elements behind.
template <int kBits, int kMr, bool kZeros, bool kTwoBytes>
QGEMM_INLINE void MultiplyHalfBlock(const uint8_t* codes,
                                    const ByteTables<kBits>& tables,
                                    const float* a, int64_t a_stride,
                                    __m256 zeros, __m256 (&sums)[kMr]) {
  RowColumns spread;
  if constexpr (kZeros) SpreadZeros(zeros, spread);
  RowColumns columns[kMr];
#pragma GCC unroll 2
  for (int r = 0; r < kMr; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) columns[r][j] = _mm256_setzero_ps();
  }
#pragma GCC unroll 8
  for (int step = 0; step < 8; ++step) {
    const int p = step / 2 * 4;
    RowColumns weights;
    Decode<kBits, kTwoBytes>(
        LoadCodes<kBits>(codes, p + step % 2, p + step % 2 + 2), tables,
        weights);
    if constexpr (kZeros) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        weights[j] = _mm256_sub_ps(weights[j], spread[j]);
      }
    }
#pragma GCC unroll 2
    for (int r = 0; r < kMr; ++r) {
      const float* from = a + r * a_stride + p;
      const __m256 low =
          _mm256_broadcast_ps(reinterpret_cast<const __m128*>(from));
      const __m256 high =
          _mm256_broadcast_ps(reinterpret_cast<const __m128*>(from + 16));
      const __m256 values = step % 2 == 0 ? _mm256_shuffle_ps(low, high, 0x88)
                                          : _mm256_shuffle_ps(low, high, 0xdd);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        columns[r][j] = _mm256_fmadd_ps(weights[j], values, columns[r][j]);
      }
    }
  }
#pragma GCC unroll 2
  for (int r = 0; r < kMr; ++r) {
    sums[r] = _mm256_hadd_ps(_mm256_hadd_ps(columns[r][0], columns[r][1]),
                             _mm256_hadd_ps(columns[r][2], columns[r][3]));
  }
}

// Adds blocks begin .. end - 1 to the sums.
template <int kBits, int kMr, bool kZeros, bool kTwoBytes>
QGEMM_INLINE void AddChain(const TileArgs& args,
                           const ByteTables<kBits>& tables, int64_t begin,
                           int64_t end) {
  const int64_t a_stride = args.blocks * kBlockElements;
  __m256 chain[2][kMr];
#pragma GCC unroll 4
  for (int i = 0; i < 2 * kMr; ++i) {
    chain[i / kMr][i % kMr] = _mm256_setzero_ps();
  }
  for (int64_t block = begin; block < end; ++block) {
    const int64_t group = block >> args.group_shift;
    const uint8_t* codes = args.codes + block * (64 * kBits);
    PrefetchCodes<kBits>(codes);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      __m256 sums[kMr];
      MultiplyHalfBlock<kBits, kMr, kZeros, kTwoBytes>(
          codes + 32 * half, tables, args.packed + block * kBlockElements,
          a_stride, kZeros ? LoadZeros(args, group, half) : _mm256_setzero_ps(),
          sums);
      const __m256 scale = LoadScales(args, group, half);
#pragma GCC unroll 2
      for (int r = 0; r < kMr; ++r) {
        chain[half][r] = _mm256_fmadd_ps(sums[r], scale, chain[half][r]);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 2 * kMr; ++i) {
    float* sum = args.sums + i % kMr * kTileRows + i / kMr * kHalfRows;
    _mm256_storeu_ps(
        sum, _mm256_add_ps(_mm256_loadu_ps(sum), chain[i / kMr][i % kMr]));
  }
}

template <int kBits, int kMr, bool kZeros, bool kTwoBytes>
void RunChains(const TileArgs& args) {
  const auto tables = LoadByteTables<kBits>(args.table);
  for (int i = 0; i < kMr * kTileRows; ++i) args.sums[i] = 0;
  for (int64_t begin = 0; begin < args.blocks; begin += kChunkBlocks) {
    const int64_t left = args.blocks - begin;
    AddChain<kBits, kMr, kZeros, kTwoBytes>(
        args, tables, begin,
        begin + (left < kChunkBlocks ? left : kChunkBlocks));
  }
}

template <int kBits, int kMr, bool kZeros>
void Run(const TileArgs* args) {
  if (kBits == 4 && HasWholeEntries(*args)) {
    return RunWhole<kMr, kZeros>(*args);
  }
  if (HasTwoBytes(args->table)) {
    return RunChains<kBits, kMr, kZeros, true>(*args);
  }
  RunChains<kBits, kMr, kZeros, false>(*args);
}

// Rows are packed one by one.
#define QGEMM_ROW(bits, mr)                                         \
  {"w" #bits "a32_" #mr "x16_avx2",                                 \
   kFamilyQuantA32,                                                 \
   bits,                                                            \
   0,                                                               \
   mr,                                                              \
   Run<bits, mr, false>,                                            \
   mr,                                                              \
   1},                                                              \
  {                                                                 \
    "w" #bits "a32z_" #mr "x16_avx2", kFamilyQuantA32, bits, 1, mr, \
        Run<bits, mr, true>, mr, 1                                  \
  }

constexpr Microkernel kRows[] = {QGEMM_ROW(4, 2), QGEMM_ROW(4, 1),
                                 QGEMM_ROW(5, 2), QGEMM_ROW(5, 1)};

}  // namespace

MicrokernelRows W4W5A32Avx2Rows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
