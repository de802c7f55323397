// SPDX-License-Identifier: Apache-2.0
//
// Every tile of C comes once, and tiles that come together share operands.

#include "kernels/cuda/tuning/wide_order.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace qgemm::cuda {
namespace {

// Tiles that an H100 multiplies at the same time.
constexpr int kWave = 132;

constexpr WideGrid kGrids[] = {
    {1, 1},  {1, 40}, {40, 1},  {kWideDepth, 3},     {kWideDepth + 1, 3},
    {7, 5},  {33, 5}, {12, 32}, {2 * kWideDepth, 1}, {2 * kWideDepth - 1, 8},
    {64, 4}, {47, 9}, {224, 8}, {224, 64},
};

class WideOrderTest : public ::testing::TestWithParam<WideGrid> {};

TEST_P(WideOrderTest, TakesEachTileOnce) {
  const WideGrid grid = GetParam();
  std::set<std::pair<int, int>> seen;
  for (int index = 0; index < WideTiles(grid); ++index) {
    const WideTile tile = WideTileAt(grid, index);
    ASSERT_GE(tile.row_block, 0);
    ASSERT_LT(tile.row_block, grid.row_blocks);
    ASSERT_GE(tile.token_block, 0);
    ASSERT_LT(tile.token_block, grid.token_blocks);
    EXPECT_TRUE(seen.emplace(tile.row_block, tile.token_block).second)
        << "tile " << index << " came before";
  }
  EXPECT_EQ(static_cast<int>(seen.size()), grid.row_blocks * grid.token_blocks);
}

// Of tokens at least, or the row blocks that took turns are done.
TEST_P(WideOrderTest, NeighboursShareTokensOrRows) {
  const WideGrid grid = GetParam();
  for (int index = 1; index < WideTiles(grid); ++index) {
    const WideTile before = WideTileAt(grid, index - 1);
    const WideTile tile = WideTileAt(grid, index);
    if (tile.token_block == before.token_block) continue;
    const int first = before.row_block / kWideDepth * kWideDepth;
    EXPECT_EQ(before.row_block,
              std::min(first + kWideDepth, grid.row_blocks) - 1);
    EXPECT_EQ(tile.row_block,
              tile.token_block == 0 ? first + kWideDepth : first);
  }
}

// Row blocks take turns kWideDepth at a time, so that a wave needs those of one
// turn, or the end of one and the start of the next; of tokens what is left of
// a wave then, and a part at each end.
TEST_P(WideOrderTest, AWaveReadsFewOperands) {
  const WideGrid grid = GetParam();
  const int tiles = WideTiles(grid);
  // Turns of fewer row blocks reach more tokens.
  const int depth = std::min(kWideDepth, grid.row_blocks % kWideDepth == 0
                                             ? kWideDepth
                                             : grid.row_blocks % kWideDepth);
  for (int begin = 0; begin + kWave <= tiles; begin += 61) {
    std::set<int> rows;
    std::set<int> tokens;
    for (int index = begin; index < begin + kWave; ++index) {
      const WideTile tile = WideTileAt(grid, index);
      rows.insert(tile.row_block);
      tokens.insert(tile.token_block);
    }
    const int turns = kWave / (kWideDepth * grid.token_blocks) + 2;
    EXPECT_LE(static_cast<int>(rows.size()), turns * kWideDepth);
    EXPECT_LE(static_cast<int>(tokens.size()), kWave / depth + 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Grids, WideOrderTest, ::testing::ValuesIn(kGrids),
                         [](const auto& info) {
                           return std::to_string(info.param.row_blocks) + "x" +
                                  std::to_string(info.param.token_blocks);
                         });

}  // namespace
}  // namespace qgemm::cuda
