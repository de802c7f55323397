// SPDX-License-Identifier: Apache-2.0
//
// Quantized activations have a place each, in the order of the weights that
// they multiply; parts of a block's shared memory lie apart.

#include "kernels/cuda/layout/q8_layout.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>

#include "gtest/gtest.h"
#include "kernels/cuda/layout/tile_address.h"
#include "kernels/cuda/plan/w4a8_plan.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {
namespace {

TEST(Q8LayoutTest, HasAPlaceForEachElementAndScale) {
  EXPECT_EQ(Q8TileBytes(kQ8TileRows), kQ8TileBytes);
  for (const int rows : {1, kQ8TileRows}) {
    std::set<int> bytes;
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < kTileColumns; ++column) {
        bytes.insert(Q8CodeOffset(row, column, rows));
      }
      for (int block = 0; block < kQ8TileBlocks; ++block) {
        const int offset = Q8ScaleOffset(row, block, rows);
        EXPECT_EQ(offset % 4, 0);
        for (int byte = 0; byte < 4; ++byte) bytes.insert(offset + byte);
      }
    }
    EXPECT_EQ(bytes.size(), rows * (kTileColumns + 4u * kQ8TileBlocks));
    EXPECT_EQ(*bytes.begin(), 0);
    EXPECT_LT(*bytes.rbegin(), Q8TileBytes(rows));
    EXPECT_EQ(Q8TileBytes(rows) % 16, 0);
  }
}

// A lane of the weights' rows has columns of pairs (step s, register r2); the
// same lane of a row of A has the same columns in bytes 2 s + r2.
TEST(Q8LayoutTest, FollowsTheOrderOfTheWeights) {
  for (int column = 0; column < kTileColumns; ++column) {
    const CodePlace weight = PlaceOfCode(/*row=*/0, column);
    for (int row = 0; row < kQ8TileRows; ++row) {
      const int offset = Q8CodeOffset(row, column);
      EXPECT_EQ(offset / 512, weight.owner.half);
      EXPECT_EQ(offset / 16 % 4, weight.owner.lane % 4);
      EXPECT_EQ(offset / 16 % 32 / 4, row);
      EXPECT_EQ(offset % 16 / 8, weight.pair / 8);
      EXPECT_EQ(offset % 8 / 4, weight.element);
      EXPECT_EQ(offset % 4, weight.pair % 8 / 2);
    }
  }
}

TEST(Q8LayoutTest, RowBlocksFollowEachOther) {
  EXPECT_EQ(Q8TileM(1), 8);
  EXPECT_EQ(Q8TileM(9), 16);
  EXPECT_EQ(Q8TileM(32), 32);
  EXPECT_EQ(Q8TileM(33), 64);
  EXPECT_EQ(Q8TileM(500), 64);
  const Q8Layout layout = Q8LayoutOf(130, 300);
  EXPECT_EQ(layout.k_tiles, 3);
  EXPECT_EQ(layout.total_bytes(), 3 * 3 * 64 * kQ8RowBytes);
  EXPECT_EQ(layout.TileOffset(0, 0), 0);
  EXPECT_EQ(layout.TileOffset(8, 0), kQ8TileBytes);
  EXPECT_EQ(layout.TileOffset(7, 1), 8 * kQ8TileBytes);
  EXPECT_EQ(layout.TileOffset(128, 2), (2 * 3 + 2) * 8 * kQ8TileBytes);
}

// Tries every makeup of a block, with few and with very many stages.
TEST(Q8PanelLayoutTest, HasAPlaceForEachScaleAndInteger) {
  const Q8PanelLayout layout = Q8PanelLayoutOf(37, 288);
  EXPECT_EQ(layout.scale_rows(), 48);
  EXPECT_EQ(layout.k_tiles, 3);
  std::set<int64_t> scales;
  for (int64_t row = 0; row < layout.scale_rows(); ++row) {
    for (int64_t block = 0; block < layout.k_tiles * kQ8TileBlocks; ++block) {
      scales.insert(layout.ScaleIndex(row, block));
    }
  }
  EXPECT_EQ(scales.size(), 48u * 12);
  EXPECT_EQ(*scales.begin(), 0);
  EXPECT_EQ(layout.integers_offset(), 48 * 12 * 4);
  EXPECT_EQ(*scales.rbegin() * 4 + 4, layout.integers_offset());
  EXPECT_EQ(layout.integers_offset() % 256, 0);
  EXPECT_EQ(layout.total_bytes(), layout.integers_offset() + 37 * 288 * 2);
  std::set<int64_t> columns;
  for (int64_t column = 0; column < 64; ++column) {
    EXPECT_EQ(Q8PanelColumn(column) / 16, column / 16);
    columns.insert(Q8PanelColumn(column));
  }
  EXPECT_EQ(columns.size(), 64u);
}

// A lane has, of 16 rows and a block, those of its columns of two sums.
TEST(Q8PanelLayoutTest, ALanesScalesAreNeighbours) {
  const Q8PanelLayout layout = Q8PanelLayoutOf(128, 256);
  for (int t = 0; t < 4; ++t) {
    for (int i = 0; i < 2; ++i) {
      for (int h = 0; h < 2; ++h) {
        const int row = 8 * i + 2 * t + h;
        EXPECT_EQ(layout.ScaleIndex(row, 0), 4 * t + 2 * i + h);
        EXPECT_EQ(layout.ScaleIndex(row + 16, 1), 48 + 4 * t + 2 * i + h);
        EXPECT_EQ(layout.ScaleIndex(row, 2) * 4,
                  layout.panel_scale_bytes() + (4 * t + 2 * i + h) * 4);
      }
    }
  }
}

// Operand r of a step has row g + 8 (r % 2) and places 2 t and 2 t + 1 of its
// first or second eight columns. Two masks take it from a word of weights:
// codes at bits 0 and 16, of the word shifted by 8 for odd r, 4 higher for the
// second eight.
TEST(Q8PanelLayoutTest, FollowsTheMasksOfTheWeights) {
  for (int row = 0; row < kTileRows; ++row) {
    for (int column = 0; column < kTileColumns; ++column) {
      const CodePlace code = PlaceOfCode(row, column);
      const int t = code.owner.lane % 4;
      const BitPlace place =
          BitOfCode(/*codes=*/4, code.pair, code.element, /*index=*/0);
      EXPECT_EQ(code.owner.half * 4 + place.word, column / 16);
      const int rows = place.bit / 8 % 2;
      const int eight = place.bit / 4 % 2;
      const int element = place.bit / 16;
      EXPECT_EQ(code.owner.lane / 4 + 8 * rows, row);
      EXPECT_EQ(Q8PanelColumn(column),
                column / 16 * 16 + 8 * eight + 2 * t + element);
    }
  }
}

TEST(Q8PanelLayoutTest, RoomOfRowsFitsBothLayouts) {
  for (int64_t m = 1; m <= kMaxW4A8M; ++m) {
    for (const int64_t k : {64, 160, 4096}) {
      const int64_t room = RoundUp(m, int64_t{kDecodeBlockM}) *
                           Q8RoomOfRow(CeilDiv(k, int64_t{kTileColumns}));
      EXPECT_LE(Q8LayoutOf(m, k).total_bytes(), room);
      EXPECT_LE(Q8PanelLayoutOf(m, k).total_bytes(), room);
    }
  }
}

// The kernel for few rows does this instead of converting a dot.
TEST(W4A8PlanTest, ABiasedDotTimesAScaleIsRoundedOnce) {
  for (int bits = 0; bits < 0x7c00; bits += 37) {
    const uint16_t half = static_cast<uint16_t>(bits);
    for (const float sign : {1.0f, -1.0f}) {
      const float d4 =
          sign * LoadFloat(FloatType::kFloat16,
                           reinterpret_cast<const uint8_t*>(&half));
      const float off = d4 * -kDotBiasValue;
      EXPECT_EQ(off, static_cast<double>(d4) * -kDotBiasValue);
      for (int dot = -kMaxDot; dot <= kMaxDot; dot += 16 * 1021) {
        const int32_t biased_bits = kDotBias + dot;
        float biased;
        std::memcpy(&biased, &biased_bits, sizeof(biased));
        ASSERT_EQ(biased, static_cast<double>(kDotBiasValue) + dot);
        ASSERT_EQ(std::fmaf(biased, d4, off), static_cast<float>(dot) * d4)
            << dot << " " << d4;
      }
    }
  }
}

TEST(W4A8PlanTest, WarpsOfFullBlocksHaveTwoRowTilesFrom32RowsOn) {
  W4A8SmemShape shape;
  shape.tile_m = 64;
  shape.n_tiles = 16;
  EXPECT_EQ(W4A8RowTiles(shape), 2);
  shape.n_tiles = 12;  // three warps a scheduler, or two with as much as four
  EXPECT_EQ(W4A8RowTiles(shape), 1);
  shape.n_tiles = 4;
  EXPECT_EQ(W4A8RowTiles(shape), 1);
  shape.k_warps = 4;
  EXPECT_EQ(W4A8RowTiles(shape), 2);
  shape.n_tiles = 3;
  EXPECT_EQ(W4A8RowTiles(shape), 1);
  shape.n_tiles = 16;
  shape.k_warps = 1;
  shape.tile_m = 32;
  EXPECT_EQ(W4A8RowTiles(shape), 2);
  shape.tile_m = 16;
  EXPECT_EQ(W4A8RowTiles(shape), 1);
}

TEST(W4A8SmemTest, PartsLieApartWithinTheBlock) {
  constexpr int kTileBytes = 1024 + 128;
  for (const int block_bytes : {kMinBlockBytes, kMaxBlockBytes}) {
    for (const int tile_m : {8, 16, 32, 64}) {
      for (const int n_tiles : {1, 2, 3, 4, 8, 9, 16}) {
        for (const int split_k : {1, 2, 8}) {
          // Chips with so little have no clusters.
          if (split_k > 1 && block_bytes == kMinBlockBytes) continue;
          for (const int stages : {1, 5, 64, 5000}) {
            const int k_warps = n_tiles <= 4 ? 4 : n_tiles <= 8 ? 2 : 1;
            const W4A8SmemShape shape = {
                tile_m,  n_tiles * kTileBytes,       stages, n_tiles, split_k,
                k_warps, tile_m == 8 && stages <= 64};
            const int slots = W4A8Slots(shape, block_bytes, kMaxW4A8Slots);
            if (slots == 0) {  // not offered
              EXPECT_TRUE(HasLongChains(shape));
              EXPECT_EQ(block_bytes, kMinBlockBytes);
              continue;
            }
            ASSERT_GE(slots, std::min(stages, k_warps));
            const DecodeSmemLayout plan = W4A8SmemLayoutOf(shape, slots);
            const int sums = SumBytes(SumsShapeOf(shape));
            EXPECT_EQ(plan.activations, HasLongChains(shape) ? sums : 0);
            EXPECT_EQ(plan.activations % 16, 0);
            EXPECT_EQ(plan.weights % 16, 0);
            EXPECT_EQ(plan.barriers % 8, 0);
            EXPECT_GE(plan.barriers, sums);
            EXPECT_EQ(plan.weights - plan.activations,
                      OwnActivationBytes(shape) +
                          slots * StageActivationBytes(shape));
            EXPECT_GE(plan.barriers, plan.weights + slots * shape.stage_bytes);
            EXPECT_LE(plan.total, block_bytes);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace qgemm::cuda
