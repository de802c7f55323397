// SPDX-License-Identifier: Apache-2.0
//
// fp16 and bf16 weights times fp32 activations on AVX-512: converted in the
// register, a lane a weight row. Intrinsics only, nothing shared with files
// compiled for other instruction sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/dense_weights_avx512.h"
#include "kernels/cpu/microkernels/microkernel.h"

namespace qgemm::cpu {
namespace {

template <int kFamily, int kMr>
QGEMM_INLINE void AddBlock(const uint8_t* weights,
                           const float* const (&rows)[kMr], int64_t offset,
                           __m512 (&chain)[kMr]) {
  __m512 parity[2][kMr];
#pragma GCC unroll 8
  for (int r = 0; r < kMr; ++r) {
    parity[0][r] = _mm512_setzero_ps();
    parity[1][r] = _mm512_setzero_ps();
  }
#pragma GCC unroll 32
  for (int k = 0; k < kBlockElements; ++k) {
    if (k % 2 == 0) {
      _mm_prefetch(
          reinterpret_cast<const char*>(weights) + kPrefetchBytes + 32 * k,
          _MM_HINT_T0);
    }
    const __m512 weight = LoadWeights<kFamily>(weights + 32 * k);
#pragma GCC unroll 8
    for (int r = 0; r < kMr; ++r) {
      parity[k & 1][r] = _mm512_fmadd_ps(
          weight, _mm512_set1_ps(rows[r][offset + k]), parity[k & 1][r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kMr; ++r) {
    chain[r] =
        _mm512_add_ps(chain[r], _mm512_add_ps(parity[0][r], parity[1][r]));
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

template <int kFamily, int kMr>
void Run(const TileArgs* args) {
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
      AddBlock<kFamily, kMr>(args->codes + block * 1024, rows,
                             block * kBlockElements, chain);
    }
    AddToSums<kMr>(chain, args->sums);
  }
}

#define QGEMM_ROW(mr)                                        \
  {"wf16a32_" #mr "x16_avx512", kFamilyFloat16, 0, 0, mr,    \
   Run<kFamilyFloat16, mr>},                                 \
  {                                                          \
    "wbf16a32_" #mr "x16_avx512", kFamilyBFloat16, 0, 0, mr, \
        Run<kFamilyBFloat16, mr>                             \
  }

constexpr Microkernel kRows[] = {QGEMM_ROW(8), QGEMM_ROW(4), QGEMM_ROW(2),
                                 QGEMM_ROW(1)};

}  // namespace

MicrokernelRows W16A32Avx512Rows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
