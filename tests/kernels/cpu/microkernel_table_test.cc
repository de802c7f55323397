// SPDX-License-Identifier: Apache-2.0
//
// Every row of every table that runs here computes the formula of
// microkernel.h, and rows of one key agree bit by bit.

#include "kernels/cpu/microkernel_table.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/cpu/random_tile.h"
#include "tests/support/seeds.h"

namespace qgemm::cpu {
namespace {

int LeastRows(const Microkernel& kernel) {
  return kernel.least_rows == 0 ? kernel.mr : kernel.least_rows;
}

class MicrokernelTableTest : public testing::TestWithParam<CpuIsa> {
 protected:
  // Row counts to try: small ones, the most, and those around a tile's 16.
  std::vector<int> SomeRows(const Microkernel& kernel) const {
    std::vector<int> counts;
    for (const int rows :
         {1, 2, 3, 8, 15, 16, 17, 31, 32, 61, 64, 81, 256, 500}) {
      if (rows >= LeastRows(kernel) && rows <= kernel.mr) {
        counts.push_back(rows);
      }
    }
    return counts;
  }

  std::vector<float> Run(RandomTile& tile, const Microkernel& kernel,
                         int first_row, int rows) const {
    return tile.Run(kernel, first_row, rows, table_.split_row);
  }

  void ExpectFormula(RandomTile& tile, const Microkernel& kernel, int rows) {
    const std::vector<float> sums = Run(tile, kernel, 0, rows);
    for (int row = 0; row < rows; ++row) {
      for (int lane = 0; lane < kTileRows; ++lane) {
        double magnitude;
        const double expected = tile.Expected(row, lane, &magnitude);
        EXPECT_NEAR(sums[row * kTileRows + lane], expected,
                    RelativeError(kernel) * magnitude)
            << kernel.name << ", row " << row << " of " << rows << ", lane "
            << lane;
      }
    }
  }

  // Each row of a call against the same row alone.
  void ExpectAsAlone(RandomTile& tile, const Microkernel& kernel, int rows) {
    const MicrokernelChoice choice =
        Choose(table_, {kernel.family, kernel.bits, kernel.zeros != 0});
    const std::vector<float> together = Run(tile, kernel, 0, rows);
    for (int row = 0; row < rows; ++row) {
      const std::vector<float> alone = Run(tile, *choice.by_rows[0], row, 1);
      EXPECT_EQ(BitsOf(alone.data()), BitsOf(&together[row * kTileRows]))
          << kernel.name << ", row " << row << " of " << rows;
    }
  }

  const MicrokernelTable table_ = TableOf(GetParam());
  RandomGenerator random_{FreshSeed()};

 private:
  // Roundings that a term goes through: the difference from the zero, 16
  // additions of its half, the halves' sum, the scale's product and scale
  // (A8), the chain and the chains' sum; each at most 2^-24, and one more for
  // their products. Of fp16 activations a block's sum is three such sums, two
  // of them beside the first; low parts are below 2^-7 of an activation (cut
  // off) and 2^-8 of an entry (rounded), their product is left out, and the
  // entry's low part is rounded, to 2^-16 of the entry. Weights with their
  // scales are rounded to bf16, or likewise are two parts; their chains are
  // of 128 blocks, not of 8.
  static double RelativeError(const Microkernel& kernel) {
    const int chain = IsScaled(kernel) ? 16 * kChunkBlocks : kChunkBlocks;
    const double roundings = 1 + 16 + 1 + 2 + chain + 3 + 1;
    if (IsScaled(kernel) && TakesBFloat16(kernel)) {
      return roundings * 0x1p-24 + 0x1p-9;
    }
    if (!TakesFloat16(kernel)) return roundings * 0x1p-24;
    return (roundings + 3) * 0x1p-24 + 0x1p-15 + 0x1p-16;
  }
};

TEST_P(MicrokernelTableTest, EveryRowComputesTheFormula) {
  for (const Microkernel& kernel : table_.rows) {
    for (const int rows : SomeRows(kernel)) {
      RandomTile tile(kernel, RandomInt(1, 5 * kChunkBlocks, &random_),
                      &random_);
      ExpectFormula(tile, kernel, rows);
    }
  }
}

// Chains of scaled weights end after 128 blocks.
TEST_P(MicrokernelTableTest, ManyBlocksAreOfSeveralChains) {
  for (const Microkernel& kernel : table_.rows) {
    RandomTile tile(kernel, RandomInt(129, 300, &random_), &random_);
    ExpectFormula(tile, kernel, LeastRows(kernel));
    ExpectAsAlone(tile, kernel, std::min(kernel.mr, 33));
  }
}

TEST_P(MicrokernelTableTest, RowsOfOneKeyAgreeBitByBit) {
  for (const Microkernel& kernel : table_.rows) {
    for (const int rows : SomeRows(kernel)) {
      RandomTile tile(kernel, RandomInt(1, 2 * kChunkBlocks + 1, &random_),
                      &random_);
      ExpectAsAlone(tile, kernel, rows);
    }
  }
}

TEST_P(MicrokernelTableTest, RowsAgreeWhereProductsAreSubnormal) {
  for (const Microkernel& kernel : table_.rows) {
    if (!TakesBFloat16(kernel)) continue;
    for (const int exponent : {-119, -124, -127}) {
      RandomTile tile(kernel, kChunkBlocks, &random_, exponent);
      ExpectAsAlone(tile, kernel, kernel.mr);
    }
  }
}

TEST_P(MicrokernelTableTest, ChoosesTheWidestThatFits) {
  const MicrokernelChoice choice = Choose(table_, {kFamilyQuantA32, 4, false});
  int widest = 0;
  for (int rows = 1; rows <= kMaxMr; ++rows) {
    for (const Microkernel& kernel : table_.rows) {
      if (kernel.family == kFamilyQuantA32 && LeastRows(kernel) <= rows) {
        widest = std::max(widest, kernel.mr);
      }
    }
    ASSERT_NE(choice.by_rows[rows - 1], nullptr);
    EXPECT_EQ(choice.by_rows[rows - 1]->mr, widest);
  }
}

TEST_P(MicrokernelTableTest, TilesTakeAllRowsFromTheirLeastOn) {
  if (GetParam() != CpuIsa::kAmx) GTEST_SKIP() << "this set has no tiles";
  const MicrokernelChoice integers = Choose(table_, {kFamilyW4A8, 4, false});
  EXPECT_EQ(integers.by_rows[14]->mr, 8);
  EXPECT_EQ(integers.by_rows[15]->mr, 256);
  const MicrokernelChoice choice =
      Choose(table_, {kFamilyQuantABFloat16, 4, false});
  EXPECT_EQ(choice.by_rows[0]->mr, 1);
  for (int rows = 2; rows <= kMaxMr; ++rows) {
    EXPECT_EQ(choice.by_rows[rows - 1]->mr, 32) << rows;
  }
  const MicrokernelChoice scaled =
      Choose(table_, {kFamilyScaledAFloat16, 4, false});
  EXPECT_EQ(scaled.by_rows[0]->mr, kMaxMr);
}

TEST_P(MicrokernelTableTest, HasEveryFamilyAndWidth) {
  for (int bits = 2; bits <= 5; ++bits) {
    EXPECT_FALSE(Choose(table_, {kFamilyQuantA32, bits, false}).empty())
        << bits;
    EXPECT_FALSE(Choose(table_, {kFamilyQuantA32, bits, true}).empty()) << bits;
  }
  EXPECT_FALSE(Choose(table_, {kFamilyW4A8, 4, false}).empty());
  EXPECT_FALSE(Choose(table_, {kFamilyFloat16}).empty());
  EXPECT_FALSE(Choose(table_, {kFamilyBFloat16}).empty());
}

TEST_P(MicrokernelTableTest, Has16BitFamiliesOfEveryWidthOrOfNone) {
  const bool has_tiles = GetParam() == CpuIsa::kAmx;
  const bool has_pairs = GetParam() == CpuIsa::kAvx512Bf16;
  EXPECT_EQ(table_.split_row != nullptr, has_tiles || has_pairs);
  for (const int family : {kFamilyQuantABFloat16, kFamilyQuantAFloat16}) {
    const bool has = family == kFamilyQuantABFloat16 && has_pairs;
    for (int bits = 2; bits <= 5; ++bits) {
      EXPECT_EQ(Choose(table_, {family, bits, false}).empty(),
                !has_tiles && !has);
    }
    EXPECT_EQ(Choose(table_, {family, 4, true}).empty(), !has_tiles && !has);
  }
  for (const int family : {kFamilyScaledABFloat16, kFamilyScaledAFloat16}) {
    for (int bits = 2; bits <= 5; ++bits) {
      EXPECT_EQ(Choose(table_, {family, bits, false}).empty(), !has_tiles);
    }
    EXPECT_EQ(Choose(table_, {family, 4, true}).empty(), !has_tiles);
  }
}

TEST_P(MicrokernelTableTest, HalvesConvertExactlyBothWays) {
  std::vector<uint16_t> halves;
  for (int bits = 0; bits < 0x7c00; ++bits) halves.push_back(bits);
  std::vector<float> floats(halves.size());
  table_.half_conversions.from_half(halves.data(), halves.size(),
                                    floats.data());
  std::vector<uint16_t> back(halves.size());
  table_.half_conversions.to_half(floats.data(), floats.size(), back.data());
  EXPECT_EQ(back, halves);
}

INSTANTIATE_TEST_SUITE_P(Isas, MicrokernelTableTest,
                         testing::ValuesIn(SupportedCpuIsas()),
                         [](const testing::TestParamInfo<CpuIsa>& info) {
                           return std::string(Name(info.param));
                         });

}  // namespace
}  // namespace qgemm::cpu
