// SPDX-License-Identifier: Apache-2.0
//
// E4M4, kbit's scale type: rounding one value, and choosing the power of two
// that brings a whole tensor into its range. E4m4ToFloat is in
// kernels/matrix/types.h.

#ifndef QGEMM_KERNELS_FORMATS_E4M4_H_
#define QGEMM_KERNELS_FORMATS_E4M4_H_

#include <cstdint>

namespace qgemm {

constexpr float kE4m4Max = 31.0f;
constexpr float kE4m4SmallestNormal = 0x1p-10f;

// The code of `value` as the kbit reference makes it: by the exact exponent,
// the mantissa rounded to nearest even and clamped without a carry. Zero,
// negative values and NaN give 0. Meant for values up to kE4m4Max; from 32 up
// the reference wraps (32 gives the code of 16), and so does this.
uint8_t FloatToE4m4(float value);

// The range of a tensor's block scales.
class E4m4Range {
 public:
  void Add(float absmax) {
    if (absmax > largest_) largest_ = absmax;
    if (absmax > 0 && absmax < smallest_) smallest_ = absmax;
  }

  // The power of two to divide by before rounding to E4M4. 1 if every
  // non-zero value lies in [kE4m4SmallestNormal, kE4m4Max]; else the smallest
  // one that brings the largest value to at most kE4m4Max, so that small
  // values keep as much precision as they can (never below 2^-126).
  float TensorScale() const;

 private:
  float largest_ = 0;
  float smallest_ = __builtin_inff();
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_E4M4_H_
