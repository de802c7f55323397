// SPDX-License-Identifier: Apache-2.0
//
// Codes of 4 bits that stand for whole numbers, one or two rows of fp32
// activations, AVX2: nothing is looked up. Four codes of a half word under the
// exponent of 2^23 are a float; masked to code i of them, less 2^23 and the
// zero, it is the weight times 16^i, exactly. Products of each i are summed
// apart, in the order of words and halves. Included by one file.

#ifndef QGEMM_KERNELS_CPU_MICROKERNELS_WHOLE_CODES_AVX2_H_
#define QGEMM_KERNELS_CPU_MICROKERNELS_WHOLE_CODES_AVX2_H_

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/quant_codes_avx2.h"
#include "kernels/cpu/microkernels/tile_scales_avx2.h"

namespace qgemm::cpu {

constexpr int kPlaces = 4;  // of codes in a half word
constexpr float kPowers[kPlaces] = {1, 16, 256, 4096};

QGEMM_INLINE __m256i Exponent() {
  return _mm256_castps_si256(_mm256_set1_ps(0x1p23f));
}

QGEMM_INLINE __m256 MaskOfPlace(int place) {
  const uint32_t bits = 0xff800000u | 15u << (4 * place);
  return _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(bits)));
}

// 2^23 and the zero of either side's rows, by place.
using ZeroOffsets = __m256[2][kPlaces];

template <bool kZeros>
QGEMM_INLINE void SetZeroOffsets(const TileArgs& args, int64_t group,
                                 ZeroOffsets& offsets) {
  const __m256 first = _mm256_set1_ps(args.table[0]);
  for (int s = 0; s < 2; ++s) {
    const __m256 zeros =
        kZeros ? LoadZeros(args, group, s) : _mm256_setzero_ps();
    for (int i = 0; i < kPlaces; ++i) {
      offsets[s][i] = _mm256_fmadd_ps(_mm256_sub_ps(zeros, first),
                                      _mm256_set1_ps(kPowers[i]),
                                      _mm256_castsi256_ps(Exponent()));
    }
  }
}

// A sum for either side of the tile and each row.
template <int kMr>
using SideSums = __m256[2][kMr];

// The sums of a block's codes at kCount places, from kFirst on: as many places
// as registers hold sums for.
template <int kFirst, int kCount, int kMr>
QGEMM_INLINE void SumPlaces(const uint8_t* codes, const float* a,
                            int64_t a_stride, const ZeroOffsets& offsets,
                            SideSums<kMr> (&sums)[kCount]) {
  __m256 masks[kCount];
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) {
    masks[i] = MaskOfPlace(kFirst + i);
#pragma GCC unroll 4
    for (int j = 0; j < 2 * kMr; ++j) {
      sums[i][j / kMr][j % kMr] = _mm256_setzero_ps();
    }
  }
#pragma GCC unroll 8
  for (int step = 0; step < 8; ++step) {
    const int half = step % 2;
    const float* from = a + 16 * half + step / 2 * kPlaces + kFirst;
    // Or the compiler would keep offsets in registers, and sums in memory.
    const __m256(*offset)[kPlaces] = offsets;
    asm("" : "+r"(offset));
    __m256 places[2];
#pragma GCC unroll 2
    for (int s = 0; s < 2; ++s) {
      const __m256i word = LoadWord(codes + 32 * s, step / 2);
      places[s] = _mm256_castsi256_ps(
          half == 0 ? _mm256_blend_epi16(word, Exponent(), 0xaa)
                    : _mm256_or_si256(_mm256_srli_epi32(word, 16), Exponent()));
    }
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      __m256 weights[2];
#pragma GCC unroll 2
      for (int r = 0; r < kMr; ++r) {
        const __m256 value = _mm256_broadcast_ss(from + r * a_stride + i);
#pragma GCC unroll 2
        for (int s = 0; s < 2; ++s) {
          if (r == 0) {
            weights[s] = _mm256_sub_ps(_mm256_and_ps(places[s], masks[i]),
                                       offset[s][kFirst + i]);
          }
          sums[i][s][r] = _mm256_fmadd_ps(weights[s], value, sums[i][s][r]);
        }
      }
    }
  }
}

// The sums of two places, of which the higher's are `power` times too large.
template <int kMr>
QGEMM_INLINE void AddPlaces(const SideSums<kMr>& low, const SideSums<kMr>& high,
                            float power, SideSums<kMr>& sums) {
#pragma GCC unroll 4
  for (int j = 0; j < 2 * kMr; ++j) {
    sums[j / kMr][j % kMr] =
        _mm256_fmadd_ps(high[j / kMr][j % kMr], _mm256_set1_ps(1 / power),
                        low[j / kMr][j % kMr]);
  }
}

template <int kMr>
QGEMM_INLINE void SumWholeBlock(const uint8_t* codes, const float* a,
                                int64_t a_stride, const ZeroOffsets& offsets,
                                SideSums<kMr>& sums) {
  SideSums<kMr> pairs[2];
  if constexpr (kMr == 1) {
    SideSums<kMr> places[kPlaces];
    SumPlaces<0, 4, kMr>(codes, a, a_stride, offsets, places);
    AddPlaces<kMr>(places[0], places[1], kPowers[1], pairs[0]);
    AddPlaces<kMr>(places[2], places[3], kPowers[1], pairs[1]);
  } else {
    SideSums<kMr> places[2];
    SumPlaces<0, 2, kMr>(codes, a, a_stride, offsets, places);
    AddPlaces<kMr>(places[0], places[1], kPowers[1], pairs[0]);
    SumPlaces<2, 2, kMr>(codes, a, a_stride, offsets, places);
    AddPlaces<kMr>(places[0], places[1], kPowers[1], pairs[1]);
  }
  AddPlaces<kMr>(pairs[0], pairs[1], kPowers[2], sums);
}

// Adds blocks begin .. end - 1 to the sums. `offsets` are those of `group`.
template <int kMr, bool kZeros>
QGEMM_INLINE void AddWholeChain(const TileArgs& args, int64_t begin,
                                int64_t end, ZeroOffsets& offsets,
                                int64_t& group) {
  SideSums<kMr> chain;
#pragma GCC unroll 4
  for (int j = 0; j < 2 * kMr; ++j) {
    chain[j / kMr][j % kMr] = _mm256_setzero_ps();
  }
  for (int64_t block = begin; block < end; ++block) {
    const int64_t next = block >> args.group_shift;
    if (kZeros && next != group) SetZeroOffsets<kZeros>(args, next, offsets);
    group = next;
    const uint8_t* codes = args.codes + block * 256;
    PrefetchCodes<4>(codes);
    SideSums<kMr> sums;
    SumWholeBlock<kMr>(codes, args.packed + block * kBlockElements,
                       args.blocks * kBlockElements, offsets, sums);
#pragma GCC unroll 2
    for (int s = 0; s < 2; ++s) {
      const __m256 scale = LoadScales(args, group, s);
#pragma GCC unroll 2
      for (int r = 0; r < kMr; ++r) {
        chain[s][r] = _mm256_fmadd_ps(sums[s][r], scale, chain[s][r]);
      }
    }
  }
#pragma GCC unroll 4
  for (int j = 0; j < 2 * kMr; ++j) {
    float* sum = args.sums + j % kMr * kTileRows + j / kMr * kHalfRows;
    _mm256_storeu_ps(
        sum, _mm256_add_ps(_mm256_loadu_ps(sum), chain[j / kMr][j % kMr]));
  }
}

template <int kMr, bool kZeros>
static void RunWhole(const TileArgs& args) {
  for (int i = 0; i < kMr * kTileRows; ++i) args.sums[i] = 0;
  ZeroOffsets offsets;
  SetZeroOffsets<kZeros>(args, 0, offsets);
  int64_t group = 0;
  for (int64_t begin = 0; begin < args.blocks; begin += kChunkBlocks) {
    const int64_t left = args.blocks - begin;
    AddWholeChain<kMr, kZeros>(
        args, begin, begin + (left < kChunkBlocks ? left : kChunkBlocks),
        offsets, group);
  }
}

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_MICROKERNELS_WHOLE_CODES_AVX2_H_
