// SPDX-License-Identifier: Apache-2.0
//
// Unaligned loads and stores of little-endian values, as all wire formats use
// them. The hosts qgemm runs on are little-endian.

#ifndef QGEMM_KERNELS_FORMATS_LITTLE_ENDIAN_H_
#define QGEMM_KERNELS_FORMATS_LITTLE_ENDIAN_H_

#include <cstdint>
#include <cstring>

namespace qgemm {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "wire bytes are read in place, so the host is little-endian");

template <typename T>
T LoadLittle(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

template <typename T>
void StoreLittle(T value, uint8_t* bytes) {
  std::memcpy(bytes, &value, sizeof(value));
}

// The eight nibbles of `word` as the eight bytes of the result, lowest first.
inline uint64_t SpreadNibbles(uint32_t word) {
  uint64_t x = word;
  x = (x | x << 16) & 0x0000ffff0000ffffu;
  x = (x | x << 8) & 0x00ff00ff00ff00ffu;
  return (x | x << 4) & 0x0f0f0f0f0f0f0f0fu;
}

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_LITTLE_ENDIAN_H_
