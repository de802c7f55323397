// SPDX-License-Identifier: Apache-2.0
//
// Bit planes to bytes and back, eight codes at a time.

#include <array>

#include "base/check.h"
#include "kernels/formats/kbit.h"
#include "kernels/formats/little_endian.h"

namespace qgemm {
namespace {

// Entry b has bit j of b as bit 0 of byte j.
constexpr std::array<uint64_t, 256> MakeSpread() {
  std::array<uint64_t, 256> table{};
  for (int byte = 0; byte < 256; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      table[byte] |= static_cast<uint64_t>(byte >> bit & 1) << (8 * bit);
    }
  }
  return table;
}

constexpr std::array<uint64_t, 256> kSpread = MakeSpread();

template <int kBits>
void Unpack(const uint8_t* planes, int64_t blocks, uint8_t* codes) {
  for (int64_t block = 0; block < blocks; ++block) {
    for (int octet = 0; octet < 4; ++octet) {
      uint64_t eight = 0;
      for (int plane = 0; plane < kBits; ++plane) {
        eight |= kSpread[planes[4 * plane + octet]] << plane;
      }
      StoreLittle(eight, codes + 8 * octet);
    }
    planes += 4 * kBits;
    codes += kKbitBlock;
  }
}

// Bit `plane` of each of eight bytes as the bits of one byte.
uint8_t GatherPlane(uint64_t eight, int plane) {
  const uint64_t bits = eight >> plane & 0x0101010101010101u;
  // Byte j's bit times 2^(56 - 7j) lands on bit 56 + j; no two products meet.
  return static_cast<uint8_t>(bits * 0x0102040810204080u >> 56);
}

}  // namespace

void UnpackKbit(int bits, const uint8_t* planes, int64_t blocks,
                uint8_t* codes) {
  switch (bits) {
    case 2:
      return Unpack<2>(planes, blocks, codes);
    case 3:
      return Unpack<3>(planes, blocks, codes);
    case 4:
      return Unpack<4>(planes, blocks, codes);
    case 5:
      return Unpack<5>(planes, blocks, codes);
  }
  LOG(FATAL) << "kbit has no width of " << bits;
}

void PackKbit(int bits, const uint8_t* codes, int64_t blocks, uint8_t* planes) {
  for (int64_t block = 0; block < blocks; ++block) {
    for (int octet = 0; octet < 4; ++octet) {
      const uint64_t eight = LoadLittle<uint64_t>(codes + 8 * octet);
      for (int plane = 0; plane < bits; ++plane) {
        planes[4 * plane + octet] = GatherPlane(eight, plane);
      }
    }
    codes += kKbitBlock;
    planes += KbitBlockBytes(bits);
  }
}

}  // namespace qgemm
