// SPDX-License-Identifier: Apache-2.0
//
// Codes, words and tiles lie where tile_layout.h says, each in a place of its
// own.

#include "kernels/cuda/layout/tile_address.h"

#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {
namespace {

int CodeBytes(int bits) { return kTileRows * kTileColumns * bits / 8; }

// The bit of the tile where bit `index` of a code stands.
int TileBit(int codes, int row, int column, int index) {
  const CodePlace place = PlaceOfCode(row, column);
  const BitPlace bit = BitOfCode(codes, place.pair, place.element, index);
  return WordOffset(codes, place.owner, bit.word) * 8 + bit.bit;
}

// A pair as tile_layout.h names it.
struct Pair {
  int g, t, q, b, s, r2, hi;

  int lane() const { return 4 * g + t; }
  int p() const { return 8 * b + 4 * s + 2 * r2 + hi; }
  int row() const { return g + 8 * hi; }
  int column(int h) const {
    return 64 * q + 32 * b + 16 * s + 8 * r2 + 2 * t + h;
  }
};

std::vector<Pair> AllPairs() {
  std::vector<Pair> pairs;
  for (int i = 0; i < kTileRows * kTileColumns / 2; ++i) {
    pairs.push_back({i & 7, i >> 3 & 3, i >> 5 & 1, i >> 6 & 1, i >> 7 & 1,
                     i >> 8 & 1, i >> 9 & 1});
  }
  return pairs;
}

TEST(PlaceOfCodeTest, IsThatOfTheLayout) {
  for (const Pair& pair : AllPairs()) {
    for (int h : {0, 1}) {
      const CodePlace place = PlaceOfCode(pair.row(), pair.column(h));
      ASSERT_EQ(place.owner.lane, pair.lane());
      ASSERT_EQ(place.owner.half, pair.q);
      ASSERT_EQ(place.pair, pair.p());
      ASSERT_EQ(place.element, h);
      ASSERT_EQ(RowOfCode(place), pair.row());
      ASSERT_EQ(ColumnOfCode(place), pair.column(h));
    }
  }
}

class TileCodesTest : public testing::TestWithParam<int> {
 protected:
  int codes() const { return GetParam(); }
  int bits() const { return BitsOf(codes()); }
};

TEST_P(TileCodesTest, EveryBitHasAPlaceOfItsOwn) {
  std::set<int> taken;
  for (int row = 0; row < kTileRows; ++row) {
    for (int column = 0; column < kTileColumns; ++column) {
      for (int index = 0; index < bits(); ++index) {
        const int bit = TileBit(codes(), row, column, index);
        ASSERT_GE(bit, 0);
        ASSERT_LT(bit, CodeBytes(bits()) * 8);
        ASSERT_TRUE(taken.insert(bit).second)
            << "row " << row << " column " << column << " bit " << index;
      }
    }
  }
  EXPECT_EQ(static_cast<int>(taken.size()), CodeBytes(bits()) * 8);
}

TEST_P(TileCodesTest, EveryWordHasOneOwner) {
  std::set<int> taken;
  for (int lane = 0; lane < kLanesPerTile; ++lane) {
    for (int half : {0, 1}) {
      for (int word = 0; word < bits(); ++word) {
        const int offset = WordOffset(codes(), {lane, half}, word);
        ASSERT_EQ(offset % 4, 0);
        ASSERT_LT(offset, CodeBytes(bits()));
        ASSERT_TRUE(taken.insert(offset).second);
      }
    }
  }
  EXPECT_EQ(static_cast<int>(taken.size()) * 4, CodeBytes(bits()));
}

TEST_P(TileCodesTest, AddedCodesComeBackAndStandAtTheirBits) {
  RandomGenerator random(FreshSeed());
  uint32_t words[kMaxWordsPerHalf] = {};
  std::vector<uint32_t> added;
  for (int i = 0; i < 2 * kPairsPerHalf; ++i) {
    added.push_back(
        static_cast<uint32_t>(RandomInt(0, (1 << bits()) - 1, &random)));
    AddCode(codes(), i / 2, i % 2, added[i], words);
  }
  for (int i = 0; i < 2 * kPairsPerHalf; ++i) {
    EXPECT_EQ(CodeIn(codes(), i / 2, i % 2, words), added[i]);
    for (int index = 0; index < bits(); ++index) {
      const BitPlace place = BitOfCode(codes(), i / 2, i % 2, index);
      const uint32_t kept = codes() == kTernaryCodes ? added[i] - 1 : added[i];
      EXPECT_EQ(words[place.word] >> place.bit & 1, kept >> index & 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TileCodesTest,
                         testing::Values(kTernaryCodes, 2, 3, 4, 5,
                                         kNumberCodes));

TEST(TileCodesLayoutTest, TwoBitBytesHoldFourCodes) {
  for (const Pair& pair : AllPairs()) {
    const int byte =
        16 * pair.lane() + 4 * (2 * pair.q + pair.b) + 2 * pair.s + pair.r2;
    for (int h : {0, 1}) {
      EXPECT_EQ(TileBit(2, pair.row(), pair.column(h), 0),
                8 * byte + 2 * (2 * pair.hi + h));
    }
  }
}

// The byte `index` of a half's three words.
int ThreeBitByte(const Pair& pair, int index) {
  const int word = 3 * pair.q + index / 4;
  const int start = word < 4 ? 16 * pair.lane() + 4 * word
                             : 512 + 8 * pair.lane() + 4 * (word - 4);
  return start + index % 4;
}

TEST(TileCodesLayoutTest, ThreeBitPairsFillTwelveBytesAndTheirSpareBits) {
  for (const Pair& pair : AllPairs()) {
    for (int i = 0; i < 6; ++i) {
      const int bit = TileBit(3, pair.row(), pair.column(i / 3), i % 3);
      if (pair.p() < 12) {
        EXPECT_EQ(bit, 8 * ThreeBitByte(pair, pair.p()) + i);
      } else {
        const int byte = pair.p() - 12 + 4 * (i / 2);
        EXPECT_EQ(bit, 8 * ThreeBitByte(pair, byte) + 6 + i % 2);
      }
    }
  }
}

TEST(TileCodesLayoutTest, FourBitBytesHoldAPairFromTheLowNibble) {
  for (const Pair& pair : AllPairs()) {
    const int byte = 512 * pair.q + 16 * pair.lane() + pair.p();
    for (int h : {0, 1}) {
      EXPECT_EQ(TileBit(4, pair.row(), pair.column(h), 0), 8 * byte + 4 * h);
      EXPECT_EQ(TileBit(5, pair.row(), pair.column(h), 0), 8 * byte + 4 * h);
    }
  }
}

TEST(TileCodesLayoutTest, FifthBitsStandInAWordAHalf) {
  for (const Pair& pair : AllPairs()) {
    const int word = 1024 + 8 * pair.lane() + 4 * pair.q;
    EXPECT_EQ(TileBit(5, pair.row(), pair.column(0), 4),
              8 * word + (18 * pair.p() + 7) % 32);
    EXPECT_EQ(TileBit(5, pair.row(), pair.column(1), 4),
              8 * word + (18 * pair.p() + 16) % 32);
  }
}

TEST(GroupIndexTest, OrdersByLaneThenGroupThenHalfOfRows) {
  for (int groups : {1, 2, 4}) {
    std::vector<int> indices;
    for (int g = 0; g < 8; ++g) {
      for (int j = 0; j < groups; ++j) {
        for (int hi : {0, 1}) {
          indices.push_back(GroupIndex(groups, g + 8 * hi, j));
        }
      }
    }
    for (int i = 0; i < 16 * groups; ++i) EXPECT_EQ(indices[i], i);
  }
}

TEST(TileOffsetsTest, PartsOfAStageFollowEachOtherWithoutGaps) {
  TileLayout layout;
  layout.bits = 4;
  layout.tile_config.n_tiles = 3;
  layout.tile_config.n_blocks = 2;
  layout.k_tiles = 5;
  layout.code_bytes = 1024;
  layout.scale_bytes = 128;
  layout.zero_bytes = 64;
  int64_t offset = 0;
  for (int64_t block = 0; block < 2; ++block) {
    for (int64_t k_tile = 0; k_tile < 5; ++k_tile) {
      const auto tile = [&](int64_t i) {
        return TileIndex{block * 3 + i, k_tile};
      };
      for (int64_t i = 0; i < 3; ++i, offset += 1024) {
        EXPECT_EQ(CodesOffset(layout, tile(i)), offset);
      }
      for (int64_t i = 0; i < 3; ++i, offset += 128) {
        EXPECT_EQ(ScalesOffset(layout, tile(i)), offset);
      }
      for (int64_t i = 0; i < 3; ++i, offset += 64) {
        EXPECT_EQ(ZerosOffset(layout, tile(i)), offset);
      }
    }
  }
  EXPECT_EQ(offset, layout.tiles_bytes());
}

}  // namespace
}  // namespace qgemm::cuda
