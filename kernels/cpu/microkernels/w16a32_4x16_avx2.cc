// SPDX-License-Identifier: Apache-2.0
//
// fp16 and bf16 weights times fp32 activations on AVX2: converted in the
// register, a tile in two halves of 8 rows. Intrinsics only, nothing shared
// with files compiled for other instruction sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/dense_weights_avx2.h"
#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/tile_scales_avx2.h"

namespace qgemm::cpu {
namespace {

template <int kFamily, int kMr>
QGEMM_INLINE void AddHalfBlock(const uint8_t* weights,
                               const float* const (&rows)[kMr], int64_t offset,
                               __m256 (&chain)[kMr]) {
  __m256 parity[2][kMr];
#pragma GCC unroll 4
  for (int r = 0; r < kMr; ++r) {
    parity[0][r] = _mm256_setzero_ps();
    parity[1][r] = _mm256_setzero_ps();
  }
#pragma GCC unroll 32
  for (int k = 0; k < kBlockElements; ++k) {
    const __m256 weight = LoadWeights<kFamily>(weights + 32 * k);
#pragma GCC unroll 4
    for (int r = 0; r < kMr; ++r) {
      parity[k & 1][r] = _mm256_fmadd_ps(
          weight, _mm256_set1_ps(rows[r][offset + k]), parity[k & 1][r]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kMr; ++r) {
    chain[r] =
        _mm256_add_ps(chain[r], _mm256_add_ps(parity[0][r], parity[1][r]));
  }
}

// Asks for the weights that lie ahead of a block.
QGEMM_INLINE void PrefetchBlock(const uint8_t* weights) {
  for (int i = 0; i < 32 * kBlockElements; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(weights) + kPrefetchBytes + i,
                 _MM_HINT_T0);
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

template <int kFamily, int kMr>
void Run(const TileArgs* args) {
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
      const uint8_t* weights = args->codes + block * 1024;
      const int64_t offset = block * kBlockElements;
      PrefetchBlock(weights);
      AddHalfBlock<kFamily, kMr>(weights, rows, offset, chain[0]);
      AddHalfBlock<kFamily, kMr>(weights + 16, rows, offset, chain[1]);
    }
    AddToSums<kMr>(chain, args->sums);
  }
}

#define QGEMM_ROW(mr)                                      \
  {"wf16a32_" #mr "x16_avx2", kFamilyFloat16, 0, 0, mr,    \
   Run<kFamilyFloat16, mr>},                               \
  {                                                        \
    "wbf16a32_" #mr "x16_avx2", kFamilyBFloat16, 0, 0, mr, \
        Run<kFamilyBFloat16, mr>                           \
  }

constexpr Microkernel kRows[] = {QGEMM_ROW(4), QGEMM_ROW(2), QGEMM_ROW(1)};

}  // namespace

MicrokernelRows W16A32Avx2Rows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
