// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on sizes that came from outside: overflow is a value, not a wrap.
// CeilDiv and RoundUp come with it, from host_device.h.

#ifndef QGEMM_BASE_CHECKED_MATH_H_
#define QGEMM_BASE_CHECKED_MATH_H_

#include <cstdint>
#include <optional>

#include "base/host_device.h"  // IWYU pragma: export

namespace qgemm {

// a * b, or nullopt if it does not fit in int64.
inline std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// a + b, or nullopt if it does not fit in int64.
inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

}  // namespace qgemm

#endif  // QGEMM_BASE_CHECKED_MATH_H_
