// SPDX-License-Identifier: Apache-2.0
//
// E4M4 by integer arithmetic on float bits.

#include "kernels/formats/e4m4.h"

#include <algorithm>
#include <cmath>

#include "base/float16.h"

namespace qgemm {

uint8_t FloatToE4m4(float value) {
  if (!(value > 0)) return 0;
  const uint32_t bits = FloatBits(value);
  // floor(log2 value) + 11; subnormal floats land far below zero, too.
  const int exponent = static_cast<int>(bits >> 23) - 127 + 11;
  if (exponent <= 0) {
    // value < 2^-10: units of 2^-14, to nearest even in the default mode.
    const float units = std::nearbyint(value * 0x1p14f);
    return static_cast<uint8_t>(std::min(units, 15.0f));
  }
  const uint32_t fraction = bits & 0x7fffffu;
  const uint32_t rounded = (fraction + 0x3ffffu + (fraction >> 19 & 1u)) >> 19;
  return static_cast<uint8_t>(std::min(exponent, 15) << 4 |
                              std::min<uint32_t>(rounded, 15));
}

float E4m4Range::TensorScale() const {
  if (largest_ == 0) return 1.0f;
  if (largest_ <= kE4m4Max && smallest_ >= kE4m4SmallestNormal) return 1.0f;
  // largest = f * 2^e with f in [0.5, 1); 31 = 0.96875 * 2^5.
  int exponent;
  const float fraction = std::frexp(largest_, &exponent);
  const int power = exponent - 5 + (fraction > 0.96875f ? 1 : 0);
  return std::ldexp(1.0f, std::max(power, -126));
}

}  // namespace qgemm
