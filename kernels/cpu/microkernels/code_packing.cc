// SPDX-License-Identifier: Apache-2.0
//
// Bit arithmetic of the block layout, eight codes at a time.

#include "kernels/cpu/microkernels/code_packing.h"

#include <cstring>

namespace qgemm::cpu {
namespace {

constexpr int kWordBytes = 4;
constexpr int kVectorBytes = 64;

uint32_t LoadWord(const uint8_t* block, int word, int lane) {
  uint32_t value;
  std::memcpy(&value, block + word * kVectorBytes + lane * kWordBytes,
              sizeof(value));
  return value;
}

void StoreWord(uint32_t value, int word, int lane, uint8_t* block) {
  std::memcpy(block + word * kVectorBytes + lane * kWordBytes, &value,
              sizeof(value));
}

// Eight codes, one a byte, side by side in the low 8 * kBits bits.
template <int kBits>
uint64_t Squeeze(const uint8_t* codes) {
  constexpr uint64_t kPairs = ((uint64_t{1} << (2 * kBits)) - 1);
  constexpr uint64_t kQuads = ((uint64_t{1} << (4 * kBits)) - 1);
  uint64_t x;
  std::memcpy(&x, codes, sizeof(x));
  x = (x | x >> (8 - kBits)) & (kPairs * 0x0001000100010001u);
  x = (x | x >> (16 - 2 * kBits)) & (kQuads * 0x0000000100000001u);
  x = (x | x >> (32 - 4 * kBits)) & ((uint64_t{1} << (8 * kBits)) - 1);
  return x;
}

// Widths that fill their words: a word is the next 32 bits of the row.
template <int kBits>
void PackWholeWords(const uint8_t* codes, int lane, uint8_t* block) {
  constexpr int kPerWord = 32 / kBits;
  for (int w = 0; w < kBits; ++w) {
    uint64_t word = 0;
    for (int i = 0; i < kPerWord; i += 8) {
      word |= Squeeze<kBits>(codes + w * kPerWord + i) << (i * kBits);
    }
    StoreWord(static_cast<uint32_t>(word), w, lane, block);
  }
}

// Widths that leave a spare bit a half.
template <int kBits>
void PackSpareWords(const uint8_t* codes, int lane, uint8_t* block) {
  constexpr int kPerHalf = 16 / kBits;
  for (int w = 0; w < kBits; ++w) {
    uint32_t word = 0;
    for (int half = 0; half < 2; ++half) {
      uint32_t bits = (codes[30 + half] >> w & 1u) << 15;
      for (int j = 0; j < kPerHalf; ++j) {
        bits |= uint32_t{codes[(2 * w + half) * kPerHalf + j]} << (kBits * j);
      }
      word |= bits << (16 * half);
    }
    StoreWord(word, w, lane, block);
  }
}

// True if code k lives in the spare bits of its block's words.
bool IsSpare(int bits, int k) { return k >= 2 * bits * (16 / bits); }

// Position of the low bit of a code that is not spare.
struct BitPlace {
  int word;
  int shift;
};
BitPlace PlaceOf(int bits, int k) {
  const int per_half = 16 / bits;
  const int half = k / per_half;
  return {half / 2, half % 2 * 16 + k % per_half * bits};
}

}  // namespace

void PackBlockRow(int bits, const uint8_t* codes, int lane, uint8_t* block) {
  switch (bits) {
    case 2:
      return PackWholeWords<2>(codes, lane, block);
    case 3:
      return PackSpareWords<3>(codes, lane, block);
    case 4:
      return PackWholeWords<4>(codes, lane, block);
    case 5:
      return PackSpareWords<5>(codes, lane, block);
  }
}

void PackCode(int bits, uint8_t code, int k, int lane, uint8_t* block) {
  if (!IsSpare(bits, k)) {
    const BitPlace place = PlaceOf(bits, k);
    const uint32_t word = LoadWord(block, place.word, lane);
    StoreWord(word | uint32_t{code} << place.shift, place.word, lane, block);
    return;
  }
  for (int w = 0; w < bits; ++w) {
    const uint32_t bit = (code >> w & 1u) << (15 + 16 * (k - 30));
    StoreWord(LoadWord(block, w, lane) | bit, w, lane, block);
  }
}

void UnpackBlockRow(int bits, const uint8_t* block, int lane, uint8_t* codes) {
  const uint32_t mask = (1u << bits) - 1;
  for (int k = 0; k < 32; ++k) {
    codes[k] = 0;
    if (!IsSpare(bits, k)) {
      const BitPlace place = PlaceOf(bits, k);
      codes[k] = LoadWord(block, place.word, lane) >> place.shift & mask;
      continue;
    }
    for (int w = 0; w < bits; ++w) {
      const uint32_t word = LoadWord(block, w, lane);
      codes[k] |= (word >> (15 + 16 * (k - 30)) & 1u) << w;
    }
  }
}

PairPlace PlaceInPairs(int bits, int k) {
  const int per_half = 16 / bits;
  if (IsSpare(bits, k)) return {15, k - 30};
  const int half = k / per_half;
  return {half / 2 * per_half + k % per_half, half % 2};
}

}  // namespace qgemm::cpu
