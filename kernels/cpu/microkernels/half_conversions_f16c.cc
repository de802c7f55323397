// SPDX-License-Identifier: Apache-2.0
//
// Half conversions by F16C. Intrinsics only, nothing shared with files
// compiled for other instruction sets.

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"

namespace qgemm::cpu {
namespace {

void FromHalf(const uint16_t* halves, int64_t count, float* floats) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(floats + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(
                         reinterpret_cast<const __m128i*>(halves + i))));
  }
  for (; i < count; ++i) floats[i] = _cvtsh_ss(halves[i]);
}

void ToHalf(const float* floats, int64_t count, uint16_t* halves) {
  constexpr int kNearestEven = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(halves + i),
        _mm256_cvtps_ph(_mm256_loadu_ps(floats + i), kNearestEven));
  }
  for (; i < count; ++i) halves[i] = _cvtss_sh(floats[i], kNearestEven);
}

}  // namespace

HalfConversions F16cHalfConversions() { return {FromHalf, ToHalf}; }

}  // namespace qgemm::cpu
