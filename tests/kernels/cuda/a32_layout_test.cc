// SPDX-License-Identifier: Apache-2.0
//
// Activations of mode A32: parts add up to a float; each has a place, in the
// order of the weights that it multiplies.

#include "kernels/cuda/layout/a32_layout.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/layout/tile_address.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {
namespace {

constexpr int kTileMs[] = {2, 8, 16, 32};

float PartOf(const A32Float& split, int part) {
  return A32FloatOf(static_cast<uint32_t>(split.parts[part]) << 16);
}

// The parts add up to a finite x, up to bits that bf16 does not have.
void ExpectSum(uint32_t bits) {
  const float x = A32FloatOf(bits);
  const A32Float split = SplitA32(bits);
  double sum = 0;
  for (int part = 0; part < kA32Parts; ++part) {
    const float value = PartOf(split, part);
    EXPECT_TRUE(value == 0 || std::signbit(value) == std::signbit(x));
    // Each part is below a step of the one before.
    EXPECT_TRUE(std::fabs(value) <= std::ldexp(std::fabs(x), -7 * part))
        << std::hex << bits;
    sum += value;
  }
  const double lost = std::fabs(x - sum);
  EXPECT_LT(lost, 0x1p-133) << std::hex << bits;
  if (std::fabs(x) >= 0x1p-110f) {
    EXPECT_EQ(lost, 0) << std::hex << bits;
  }
}

TEST(SplitA32Test, PartsAddUp) {
  constexpr uint32_t kLower[] = {
      0x0000, 0x0001, 0x007f, 0x0080, 0x00ff, 0x0100, 0x0101, 0x01ff, 0x7f80,
      0x7fff, 0x8000, 0x8001, 0x80ff, 0xff00, 0xff01, 0xff7f, 0xfffe, 0xffff};
  RandomGenerator random(FreshSeed());
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    if ((upper & 0x7f80) == 0x7f80) continue;  // not finite
    for (const uint32_t lower : kLower) ExpectSum(upper << 16 | lower);
    for (int i = 0; i < 4; ++i) {
      ExpectSum(upper << 16 |
                static_cast<uint32_t>(RandomInt(0, 0xffff, &random)));
    }
    if (HasFailure()) return;
  }
}

TEST(SplitA32Test, OneOfTheFirstPartAloneIsNotFinite) {
  for (const float x : {std::numeric_limits<float>::infinity(),
                        -std::numeric_limits<float>::infinity()}) {
    const A32Float split = SplitA32(A32BitsOf(x));
    EXPECT_EQ(PartOf(split, 0), x);
    EXPECT_EQ(split.parts[1], 0);
    EXPECT_EQ(split.parts[2], 0);
  }
  // Payloads whose bits the first part has, or has not.
  for (const uint32_t bits :
       {0x7fc00000u, 0x7f800001u, 0xff80ffffu, 0x7f810000u, 0xffffffffu}) {
    const A32Float split = SplitA32(bits);
    EXPECT_TRUE(std::isnan(PartOf(split, 0))) << std::hex << bits;
    EXPECT_EQ(split.parts[1], 0);
    EXPECT_EQ(split.parts[2], 0);
  }
  EXPECT_EQ(PartOf(SplitA32(A32BitsOf(std::numeric_limits<float>::max())), 0),
            0x1.fep127f);
}

TEST(A32LayoutTest, HasAPlaceForEachPart) {
  for (const int tile_m : {1, 2, 8, 16, 32}) {
    std::set<int> offsets;
    for (int row = 0; row < tile_m; ++row) {
      for (int block = 0; block < kA32TileBlocks; ++block) {
        for (int t = 0; t < 4; ++t) {
          for (int part = 0; part < kA32Parts; ++part) {
            offsets.insert(A32Offset({row, block, t, part}, tile_m));
          }
        }
      }
    }
    EXPECT_EQ(offsets.size(), tile_m * kA32TileBlocks * 4u * kA32Parts);
    EXPECT_GE(*offsets.begin(), 0);
    EXPECT_LE(*offsets.rbegin() + 16, A32StageBytes(tile_m));
    for (const int offset : offsets) EXPECT_EQ(offset % 16, 0);
  }
}

TEST(A32LayoutTest, HasAPlaceForEachColumn) {
  for (const A32Form form : {A32Form::kFew, A32Form::kPanels}) {
    for (const A32Pairs pairs : {A32Pairs::kNeighbours, A32Pairs::kEights}) {
      std::set<int> columns;
      for (int i = 0; i < 32; ++i) {
        columns.insert(A32ColumnIn(form, i / 8, i % 8, pairs));
      }
      EXPECT_EQ(columns.size(), 32u);
      EXPECT_EQ(*columns.begin(), 0);
      EXPECT_EQ(*columns.rbegin(), 31);
    }
  }
}

TEST(A32LayoutTest, RowBlocksFollowEachOther) {
  EXPECT_EQ(A32TileM(1), 2);
  EXPECT_EQ(A32TileM(2), 2);
  EXPECT_EQ(A32TileM(3), 8);
  EXPECT_EQ(A32TileM(9), 16);
  EXPECT_EQ(A32TileM(17), 32);
  EXPECT_EQ(A32TileM(1000), 32);
  const A32Layout layout = A32LayoutOf(70, 300);
  EXPECT_EQ(layout.k_tiles, 3);
  EXPECT_EQ(layout.total_bytes(), 3 * 3 * 32 * kA32RowBytes);
  EXPECT_EQ(layout.StageOffset(31, 1), 32 * kA32RowBytes);
  EXPECT_EQ(layout.StageOffset(64, 2), (2 * 3 + 2) * 32 * kA32RowBytes);
  // Buffers have room for a multiple of 64 rows of the larger kind.
  EXPECT_LE(A32LayoutOf(2, 300).total_bytes(), 3 * 64 * kA32RowBytes);
}

// A row tile and a row block of activations, multiplied as the kernel does it,
// lane by lane, in integers.
class A32TileTest : public testing::TestWithParam<int> {
 protected:
  static constexpr int kLanes = 32;

  void SetUp() override {
    for (auto& row : codes_) {
      for (int& code : row) {
        code = static_cast<int>(RandomInt(0, Codes() - 1, &random_));
      }
    }
    const int bits = BitsOf(GetParam());
    tile_.assign(kTileRows * kTileColumns * bits / 8, 0);
    for (int row = 0; row < kTileRows; ++row) {
      for (int column = 0; column < kTileColumns; ++column) {
        const CodePlace place = PlaceOfCode(row, column);
        std::array<uint32_t, kMaxWordsPerHalf> words = {};
        for (int word = 0; word < bits; ++word) {
          words[word] = Word(place.owner, word);
        }
        AddCode(GetParam(), place.pair, place.element, codes_[row][column],
                words.data());
        for (int word = 0; word < bits; ++word) {
          std::memcpy(&tile_[WordOffset(GetParam(), place.owner, word)],
                      &words[word], 4);
        }
      }
    }
  }

  int Codes() const { return GetParam() == kTernaryCodes ? 3 : 16; }

  uint32_t Word(const LaneHalf& owner, int word) const {
    uint32_t value;
    std::memcpy(&value, &tile_[WordOffset(GetParam(), owner, word)], 4);
    return value;
  }

  using WeightRows = std::array<std::array<int, 16>, kTileRows>;

  // The A operand of a step of a block, by 16 of K, from lanes' registers:
  // codes of 4 bits, numbers of ternary ones (decode.cuh has the shift).
  WeightRows Weights(int block, int step) const {
    WeightRows a;
    for (int i = 0; i < kLanes * 4; ++i) {
      const int lane = i / 4;
      const int r = i % 4;
      int* const pair = &a[lane / 4 + r % 2 * 8][r / 2 * 8 + lane % 4 * 2];
      const LaneHalf owner = {lane, block / 2};
      if (GetParam() == kTernaryCodes) {
        const uint32_t kept = Word(owner, block % 2) << (14 - 8 * step - 2 * r);
        for (int half = 0; half < 2; ++half) {
          pair[half] = static_cast<int16_t>(kept >> 16 * half & 0xc000) >> 14;
        }
        continue;
      }
      const int shift = GetParam() == kNumberCodes ? 4 * r : A32CodeShift(r);
      const uint32_t kept =
          Word(owner, 2 * (block % 2) + step) >> shift & kA32CodeMask;
      pair[0] = static_cast<int>(kept & 0xffff);
      pair[1] = static_cast<int>(kept >> 16);
    }
    return a;
  }

  int Number(int code) const {
    return GetParam() == kTernaryCodes ? code - 1 : code;
  }

  RandomGenerator random_{FreshSeed()};
  std::array<std::array<int, kTileColumns>, kTileRows> codes_;
  std::vector<uint8_t> tile_;
};

// Columns of an MMA by 16 of K.
using Matrix = std::array<std::array<int, 16>, 8>;

// The B operand of mma.m16n8k16 from lanes' registers, 16 bytes for two steps.
Matrix FragmentAt(const std::vector<int>& stage, int piece, int step) {
  Matrix b;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      b[lane / 4][i / 2 * 8 + lane % 4 * 2 + i % 2] =
          stage[(piece + lane * 16) / 2 + step * 4 + i];
    }
  }
  return b;
}

// Eight rows of the B operand of wgmma from a panel in the 128-byte swizzle.
Matrix RowsOfPanel(const std::vector<int>& stage, int panel, int first_row,
                   int step) {
  Matrix b;
  for (int row = 0; row < 8; ++row) {
    for (int k = 0; k < 16; ++k) {
      const int piece = (2 * step + k / 8) ^ row;
      b[row][k] =
          stage[(panel + (first_row + row) * kA32PanelRowBytes + piece * 16) /
                    2 +
                k % 8];
    }
  }
  return b;
}

// The columns of one MMA: 8 rows of A and one part of each, or two rows with
// their parts.
struct MmaColumns {
  int tile_m;
  int m_tile;
  int part;

  Matrix Operand(const std::vector<int>& stage, int block, int step) const {
    if (is_few()) return FragmentAt(stage, block * kA32PieceBytes, step);
    return RowsOfPanel(stage,
                       (block / 2 * kA32Parts + part) * A32PanelBytes(tile_m),
                       m_tile * 8, block % 2 * 2 + step);
  }
  bool is_few() const { return tile_m <= kA32FewRows; }
  int RowOf(int column) const {
    return is_few() ? column / 4 : m_tile * 8 + column;
  }
  int PartOf(int column) const { return is_few() ? column % 4 : part; }
};

std::vector<MmaColumns> ColumnsOf(int tile_m) {
  if (tile_m <= kA32FewRows) return {{tile_m, 0, 0}};
  std::vector<MmaColumns> all;
  for (int m_tile = 0; m_tile < tile_m / 8; ++m_tile) {
    for (int part = 0; part < kA32Parts; ++part) {
      all.push_back({tile_m, m_tile, part});
    }
  }
  return all;
}

TEST_P(A32TileTest, OperandsMeet) {
  const A32Pairs pairs = A32PairsOf(GetParam());
  for (const int tile_m : kTileMs) {
    // A number for each row, column and part, at its place.
    std::vector<int> x(tile_m * kTileColumns * kA32Parts);
    for (int& value : x) value = static_cast<int>(RandomInt(-99, 99, &random_));
    const auto number = [&](int row, int column, int part) {
      return x[(row * kTileColumns + column) * kA32Parts + part];
    };
    std::vector<int> elements(A32StageBytes(tile_m) / 2);
    for (int row = 0; row < tile_m; ++row) {
      for (int part = 0; part < kA32Parts; ++part) {
        for (int i = 0; i < kTileColumns; ++i) {
          const A32Place place = {row, i / 32, i / 8 % 4, part};
          const int column = i / 32 * 32 + A32ColumnIn(A32FormOf(tile_m),
                                                       place.t, i % 8, pairs);
          elements[A32Offset(place, tile_m) / 2 + i % 8] =
              number(row, column, part);
        }
      }
    }
    for (const MmaColumns& columns : ColumnsOf(tile_m)) {
      int64_t d[kTileRows][8] = {};
      for (int i = 0; i < 2 * kA32TileBlocks; ++i) {
        const WeightRows w = Weights(i / 2, i % 2);
        const Matrix b = columns.Operand(elements, i / 2, i % 2);
        for (int row = 0; row < kTileRows; ++row) {
          for (int n = 0; n < 8; ++n) {
            for (int k = 0; k < 16; ++k) d[row][n] += w[row][k] * b[n][k];
          }
        }
      }
      for (int n = 0; n < 8; ++n) {
        if (columns.PartOf(n) == kA32Parts) continue;
        for (int w_row = 0; w_row < kTileRows; ++w_row) {
          int64_t expected = 0;
          for (int column = 0; column < kTileColumns; ++column) {
            expected += Number(codes_[w_row][column]) *
                        number(columns.RowOf(n), column, columns.PartOf(n));
          }
          ASSERT_EQ(d[w_row][n], expected)
              << "tile_m " << tile_m << ", column " << n;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codes, A32TileTest,
                         testing::Values(kTernaryCodes, 4, kNumberCodes),
                         [](const testing::TestParamInfo<int>& info) {
                           return info.param == 4              ? "Int4"
                                  : info.param == kNumberCodes ? "Numbers"
                                                               : "Ternary";
                         });

}  // namespace
}  // namespace qgemm::cuda
