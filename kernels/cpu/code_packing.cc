// SPDX-License-Identifier: Apache-2.0
//
// Bit arithmetic of the block layout, eight codes at a time.

#include "kernels/cpu/code_packing.h"

#include <cstring>

namespace qgemm {
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

// Widths that leave two spare bits a word.
template <int kBits>
void PackSpareWords(const uint8_t* codes, int lane, uint8_t* block) {
  constexpr int kPerWord = 32 / kBits;
  constexpr uint32_t kLow = (uint32_t{1} << (kBits * kPerWord)) - 1;
  const uint32_t spare = codes[30] | codes[31] << kBits;
  for (int w = 0; w < kBits; ++w) {
    const uint8_t* first = codes + w * kPerWord;
    // Reads eight codes, then what is left of the word's one by one.
    uint64_t word = 0;
    int done = 0;
    if constexpr (kPerWord >= 8) {
      word = Squeeze<kBits>(first);
      done = 8;
    }
    for (int j = done; j < kPerWord; ++j) {
      word |= uint64_t{first[j]} << (kBits * j);
    }
    const uint32_t top = spare >> (2 * w) & 3u;
    StoreWord((static_cast<uint32_t>(word) & kLow) | top << 30, w, lane, block);
  }
}

// True if code k lives in the spare bits of its block's words.
bool IsSpare(int bits, int k) { return k >= bits * (32 / bits); }

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
  const int per_word = 32 / bits;
  if (!IsSpare(bits, k)) {
    const int word = k / per_word;
    const uint32_t placed = uint32_t{code} << (bits * (k % per_word));
    StoreWord(LoadWord(block, word, lane) | placed, word, lane, block);
    return;
  }
  const uint32_t spare = uint32_t{code} << (bits * (k - 30));
  for (int w = 0; w < bits; ++w) {
    const uint32_t top = spare >> (2 * w) & 3u;
    StoreWord(LoadWord(block, w, lane) | top << 30, w, lane, block);
  }
}

void UnpackBlockRow(int bits, const uint8_t* block, int lane, uint8_t* codes) {
  const int per_word = 32 / bits;
  const uint32_t mask = (1u << bits) - 1;
  uint32_t spare = 0;
  for (int w = 0; w < bits; ++w) {
    const uint32_t word = LoadWord(block, w, lane);
    for (int j = 0; j < per_word; ++j) {
      codes[w * per_word + j] = word >> (bits * j) & mask;
    }
    spare |= (word >> 30) << (2 * w);
  }
  if (!IsSpare(bits, 31)) return;
  codes[30] = spare & mask;
  codes[31] = spare >> bits & mask;
}

}  // namespace qgemm
