// SPDX-License-Identifier: Apache-2.0
//
// Elements of 16 bits as C++ types: storage and conversion, no arithmetic.

#ifndef QGEMM_CLIENT_INCLUDE_QGEMM_FLOAT_TYPES_H_
#define QGEMM_CLIENT_INCLUDE_QGEMM_FLOAT_TYPES_H_

#include <cstdint>

namespace qgemm {

// IEEE binary16, by its bits.
struct Half {
  Half() = default;
  // Rounds to nearest even.
  explicit Half(float value);
  // Exact.
  explicit operator float() const;

  uint16_t bits = 0;
};

// The upper half of an IEEE binary32, by its bits.
struct BFloat16 {
  BFloat16() = default;
  // Rounds to nearest even.
  explicit BFloat16(float value);
  // Exact.
  explicit operator float() const;

  uint16_t bits = 0;
};

static_assert(sizeof(Half) == 2 && sizeof(BFloat16) == 2,
              "spans of them are what travels");

}  // namespace qgemm

#endif  // QGEMM_CLIENT_INCLUDE_QGEMM_FLOAT_TYPES_H_
