// SPDX-License-Identifier: Apache-2.0
//
// Every tile of C comes once, and tiles that come together share operands.

#include "kernels/cuda/device/prefill_gemm/tile_scheduler.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace qgemm::cuda {
namespace {

// Tiles that an H100 multiplies at the same time.
constexpr int kWave = 132;

constexpr TileGrid kGrids[] = {
    {1, 1},
    {1, 40},
    {40, 1},
    {kRasterDepth, 3},
    {kRasterDepth + 1, 3},
    {7, 5},
    {33, 5},
    {12, 32},
    {2 * kRasterDepth, 1},
    {2 * kRasterDepth - 1, 8},
    {64, 4},
    {47, 9},
    {224, 8},
    {224, 64},
};

class TileSchedulerTest : public ::testing::TestWithParam<TileGrid> {};

TEST_P(TileSchedulerTest, TakesEachTileOnce) {
  const TileGrid grid = GetParam();
  std::set<std::pair<int, int>> seen;
  for (int index = 0; index < TileCount(grid); ++index) {
    const OutputTile tile = TileAt(grid, index);
    ASSERT_GE(tile.n_block, 0);
    ASSERT_LT(tile.n_block, grid.n_blocks);
    ASSERT_GE(tile.m_block, 0);
    ASSERT_LT(tile.m_block, grid.m_blocks);
    EXPECT_TRUE(seen.emplace(tile.n_block, tile.m_block).second)
        << "tile " << index << " came before";
  }
  EXPECT_EQ(static_cast<int>(seen.size()), grid.n_blocks * grid.m_blocks);
}

// They share rows of A at least, unless a group of row blocks has ended.
TEST_P(TileSchedulerTest, NeighboursShareTokensOrRows) {
  const TileGrid grid = GetParam();
  for (int index = 1; index < TileCount(grid); ++index) {
    const OutputTile before = TileAt(grid, index - 1);
    const OutputTile tile = TileAt(grid, index);
    if (tile.m_block == before.m_block) continue;
    const int first = before.n_block / kRasterDepth * kRasterDepth;
    EXPECT_EQ(before.n_block,
              std::min(first + kRasterDepth, grid.n_blocks) - 1);
    EXPECT_EQ(tile.n_block, tile.m_block == 0 ? first + kRasterDepth : first);
  }
}

// Row blocks take turns kRasterDepth at a time, so that a wave needs those of
// one turn, or the end of one and the start of the next; of rows of A what is
// left of a wave then, and a part at each end.
TEST_P(TileSchedulerTest, AWaveReadsFewOperands) {
  const TileGrid grid = GetParam();
  const int tiles = TileCount(grid);
  // KSlice of fewer row blocks reach more rows of A.
  const int depth = std::min(kRasterDepth, grid.n_blocks % kRasterDepth == 0
                                               ? kRasterDepth
                                               : grid.n_blocks % kRasterDepth);
  for (int begin = 0; begin + kWave <= tiles; begin += 61) {
    std::set<int> rows;
    std::set<int> tile_m;
    for (int index = begin; index < begin + kWave; ++index) {
      const OutputTile tile = TileAt(grid, index);
      rows.insert(tile.n_block);
      tile_m.insert(tile.m_block);
    }
    const int slice = kWave / (kRasterDepth * grid.m_blocks) + 2;
    EXPECT_LE(static_cast<int>(rows.size()), slice * kRasterDepth);
    EXPECT_LE(static_cast<int>(tile_m.size()), kWave / depth + 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Grids, TileSchedulerTest, ::testing::ValuesIn(kGrids),
                         [](const auto& info) {
                           return std::to_string(info.param.n_blocks) + "x" +
                                  std::to_string(info.param.m_blocks);
                         });

}  // namespace
}  // namespace qgemm::cuda
