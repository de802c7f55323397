// SPDX-License-Identifier: Apache-2.0
//
// IEEE half precision and bfloat16 as storage: the 16 bits, and conversions
// to and from float that round to nearest even, keep subnormals, infinities
// and NaN, and overflow to infinity.

#ifndef QGEMM_BASE_FLOAT16_H_
#define QGEMM_BASE_FLOAT16_H_

#include <cstdint>
#include <cstring>

namespace qgemm {

inline uint32_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float FloatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline float Float16ToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity or NaN
    return FloatFromBits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  }
  // The half's bits as a float are the value times 2^-112, also for
  // subnormals; the product is exact.
  const float scaled = FloatFromBits(magnitude << 13) * 0x1p112f;
  return FloatFromBits(sign | FloatBits(scaled));
}

inline uint16_t FloatToFloat16(float value) {
  const uint32_t bits = FloatBits(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN, kept quiet
    return static_cast<uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds past 65504
  if (magnitude < 0x38800000u) {
    // Subnormal half: adding 0.5 leaves the rounded multiple of 2^-24 in the
    // low bits of the sum.
    const float shifted = FloatFromBits(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (FloatBits(shifted) - 0x3f000000u));
  }
  const uint32_t round = 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<uint16_t>(sign |
                               ((magnitude - 0x38000000u + round) >> 13));
}

inline float BFloat16ToFloat(uint16_t bfloat) {
  return FloatFromBits(static_cast<uint32_t>(bfloat) << 16);
}

inline uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = FloatBits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {  // NaN, kept quiet
    return static_cast<uint16_t>(bits >> 16 | 0x40u);
  }
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace qgemm

#endif  // QGEMM_BASE_FLOAT16_H_
