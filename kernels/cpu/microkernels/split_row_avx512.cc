// SPDX-License-Identifier: Apache-2.0
//
// Writes a row as bf16 parts on AVX-512. Intrinsics only, nothing shared with
// files compiled for other instruction sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"

namespace qgemm::cpu {
namespace {

void SplitRow(const RowParts* split) {
  const __m512i pick = _mm512_loadu_si512(split->pick);
  const __m512i high_bits = _mm512_set1_epi32(-0x10000);
  for (int64_t block = 0; block < split->blocks; ++block) {
    const float* from = split->row + block * kBlockElements;
    const __m512 a = _mm512_loadu_ps(from);
    const __m512 b = _mm512_loadu_ps(from + 16);
    const int64_t to = block * split->part_block;
    _mm512_storeu_si512(split->high + to,
                        _mm512_permutex2var_epi16(_mm512_castps_si512(a), pick,
                                                  _mm512_castps_si512(b)));
    if (split->low == nullptr) continue;
    const auto rest = [high_bits](__m512 x) {
      const __m512i high = _mm512_and_si512(_mm512_castps_si512(x), high_bits);
      return _mm512_castps_si512(_mm512_sub_ps(x, _mm512_castsi512_ps(high)));
    };
    _mm512_storeu_si512(split->low + to,
                        _mm512_permutex2var_epi16(rest(a), pick, rest(b)));
  }
}

}  // namespace

SplitRowFunction Avx512SplitRow() { return SplitRow; }

}  // namespace qgemm::cpu
