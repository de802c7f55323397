// SPDX-License-Identifier: Apache-2.0
//
// The block layout: codes come back, and lie where the header says.

#include "kernels/cpu/microkernels/code_packing.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/seeds.h"

namespace qgemm::cpu {
namespace {

constexpr int kRows = 16;
constexpr int kColumns = 32;

using BlockCodes = std::array<std::array<uint8_t, kColumns>, kRows>;

class CodePackingTest : public testing::TestWithParam<int> {
 protected:
  BlockCodes RandomCodes() {
    BlockCodes codes;
    for (auto& row : codes) {
      for (uint8_t& code : row)
        code = RandomInt(0, (1 << bits()) - 1, &random_);
    }
    return codes;
  }

  std::vector<uint8_t> PackRows(const BlockCodes& codes) const {
    std::vector<uint8_t> block(BlockBytes(bits()));
    for (int lane = 0; lane < kRows; ++lane) {
      PackBlockRow(bits(), codes[lane].data(), lane, block.data());
    }
    return block;
  }

  int bits() const { return GetParam(); }
  RandomGenerator random_{FreshSeed()};
};

TEST_P(CodePackingTest, EveryRowComesBack) {
  const BlockCodes codes = RandomCodes();
  const std::vector<uint8_t> block = PackRows(codes);
  for (int lane = 0; lane < kRows; ++lane) {
    std::array<uint8_t, kColumns> unpacked;
    UnpackBlockRow(bits(), block.data(), lane, unpacked.data());
    EXPECT_EQ(unpacked, codes[lane]) << "lane " << lane;
  }
}

TEST_P(CodePackingTest, SingleCodesInAnyOrderMakeTheSameBlock) {
  const BlockCodes codes = RandomCodes();
  std::vector<int> order(kRows * kColumns);
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random_);
  std::vector<uint8_t> block(BlockBytes(bits()));
  for (int place : order) {
    const int lane = place / kColumns;
    const int k = place % kColumns;
    PackCode(bits(), codes[lane][k], k, lane, block.data());
  }
  EXPECT_EQ(block, PackRows(codes));
}

TEST_P(CodePackingTest, OneShiftBringsThePairsOfAWordToItsHalves) {
  const BlockCodes codes = RandomCodes();
  const std::vector<uint8_t> block = PackRows(codes);
  const int per_half = 16 / bits();
  const uint32_t mask = (1u << bits()) - 1;
  for (int k = 0; k < 2 * bits() * per_half; ++k) {
    const PairPlace place = PlaceInPairs(bits(), k);
    uint32_t word;
    std::memcpy(&word, &block[place.pair / per_half * 64], sizeof(word));
    word >>= place.pair % per_half * bits();
    EXPECT_EQ(word >> (16 * place.half) & mask, codes[0][k]) << "column " << k;
  }
}

TEST_P(CodePackingTest, PairsHoldEveryColumnOnce) {
  std::array<int, kColumns> columns{};
  for (int k = 0; k < kColumns; ++k) {
    const PairPlace place = PlaceInPairs(bits(), k);
    ++columns.at(2 * place.pair + place.half);
  }
  for (const int count : columns) EXPECT_EQ(count, 1);
}

INSTANTIATE_TEST_SUITE_P(Bits, CodePackingTest, testing::Range(2, 6));

TEST(CodePackingLayoutTest, FourBitWordHoldsEightConsecutiveCodes) {
  uint8_t codes[kColumns] = {};
  for (int k = 0; k < 8; ++k) codes[8 + k] = k + 1;
  std::vector<uint8_t> block(BlockBytes(4));
  PackBlockRow(4, codes, 3, block.data());
  uint32_t word;
  std::memcpy(&word, block.data() + 64 + 3 * 4, sizeof(word));
  EXPECT_EQ(word, 0x87654321u);
}

TEST(CodePackingLayoutTest, LastThreeBitCodesFillTheSpareBits) {
  uint8_t codes[kColumns] = {};
  codes[30] = 0b101;
  codes[31] = 0b110;
  std::vector<uint8_t> block(BlockBytes(3));
  PackBlockRow(3, codes, 0, block.data());
  // A bit of each a word, from the low end: of code 30, then of code 31.
  const uint32_t expected[] = {1u << 15, 1u << 31, 1u << 15 | 1u << 31};
  for (int w = 0; w < 3; ++w) {
    uint32_t word;
    std::memcpy(&word, block.data() + 64 * w, sizeof(word));
    EXPECT_EQ(word, expected[w]) << "word " << w;
  }
}

}  // namespace
}  // namespace qgemm::cpu
