// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on sizes that came from outside: overflow is a value, not a wrap.

#ifndef QGEMM_BASE_CHECKED_MATH_H_
#define QGEMM_BASE_CHECKED_MATH_H_

#include <cstdint>
#include <optional>

namespace qgemm {

// a * b, or nothing if it does not fit in int64.
inline std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// a + b, or nothing if it does not fit in int64.
inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

// ceil(a / b) for a >= 0 and b > 0, without overflow.
constexpr int64_t CeilDiv(int64_t a, int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

// The smallest multiple of b that is >= a, for a >= 0 and b > 0; a must be
// small enough that it fits.
constexpr int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

}  // namespace qgemm

#endif  // QGEMM_BASE_CHECKED_MATH_H_
