// SPDX-License-Identifier: Apache-2.0
//
// Every tile of C comes once, tiles that come together share operands, and
// parts of split tiles are those of the blocks that are said to have them.

#include "kernels/cuda/plan/tile_scheduler.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

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

struct Launch {
  int tiles;
  int stages;
};

constexpr Launch kLaunches[] = {
    {1, 1},    {1, 32},    {4, 3},    {28, 148},  {32, 112},  {56, 148},
    {64, 32},  {80, 64},   {86, 32},  {131, 16},  {132, 8},   {133, 64},
    {160, 64}, {263, 5},   {264, 7},  {265, 7},   {300, 1},   {448, 64},
    {895, 64}, {1000, 28}, {66, 128}, {140, 148}, {12, 1000}, {130, 3}};

class TileScheduleTest : public ::testing::TestWithParam<Launch> {
 protected:
  TileSchedule Whole() const {
    return WholeTiles(GetParam().tiles, GetParam().stages, kWave);
  }
  TileSchedule Split() const {
    return SplitTiles(GetParam().tiles, GetParam().stages, kWave);
  }
  static std::vector<TilePiece> PiecesOf(const TileSchedule& schedule,
                                         int block) {
    const BlockPieces pieces(schedule, block);
    std::vector<TilePiece> all;
    for (int i = 0; i < pieces.Count(); ++i) all.push_back(pieces.At(i));
    return all;
  }
};

TEST_P(TileScheduleTest, EveryStageComesOnce) {
  for (const TileSchedule& schedule : {Whole(), Split()}) {
    ASSERT_LE(schedule.blocks, kWave);
    std::set<std::pair<int, int>> seen;
    for (int block = 0; block < schedule.blocks; ++block) {
      ASSERT_FALSE(PiecesOf(schedule, block).empty()) << "block " << block;
      for (const TilePiece& piece : PiecesOf(schedule, block)) {
        ASSERT_LT(piece.begin, piece.end) << "block " << block;
        for (int stage = piece.begin; stage < piece.end; ++stage) {
          EXPECT_TRUE(seen.emplace(piece.tile, stage).second)
              << "tile " << piece.tile << ", stage " << stage;
        }
      }
    }
    EXPECT_EQ(static_cast<int>(seen.size()),
              GetParam().tiles * GetParam().stages);
    EXPECT_EQ(seen.begin()->first, 0);
    EXPECT_EQ(seen.rbegin()->first, GetParam().tiles - 1);
  }
}

// One piece at most, the first: nobody waits before it.
TEST_P(TileScheduleTest, OnlyTheFirstPieceIsHandedOver) {
  const TileSchedule schedule = Split();
  for (int block = 0; block < schedule.blocks; ++block) {
    const std::vector<TilePiece> pieces = PiecesOf(schedule, block);
    for (size_t i = 1; i < pieces.size(); ++i) {
      EXPECT_EQ(pieces[i].end, schedule.stages) << "block " << block;
    }
  }
}

// The parts before the last one are the pieces that the blocks from the first
// one on hand over, in the order of K.
TEST_P(TileScheduleTest, PartsAreThoseOfTheBlocksBefore) {
  const TileSchedule schedule = Split();
  for (int block = 0; block < schedule.blocks; ++block) {
    const TilePiece last = PiecesOf(schedule, block).back();
    if (last.end < schedule.stages || last.begin == 0) continue;
    int begin = 0;
    for (int other = FirstBlockOf(schedule, last.tile); other < block;
         ++other) {
      const TilePiece part = PiecesOf(schedule, other).front();
      EXPECT_EQ(part.tile, last.tile);
      EXPECT_EQ(part.begin, begin);
      EXPECT_LT(part.end, schedule.stages);
      begin = part.end;
    }
    EXPECT_EQ(last.begin, begin) << "tile " << last.tile;
  }
}

TEST_P(TileScheduleTest, NoBlockHasMoreThanItsShare) {
  const TileSchedule schedule = Split();
  const int equal = (GetParam().tiles * GetParam().stages + kWave - 1) / kWave;
  for (int block = 0; block < schedule.blocks; ++block) {
    int stages = 0;
    for (const TilePiece& piece : PiecesOf(schedule, block)) {
      stages += piece.end - piece.begin;
    }
    EXPECT_LE(stages, equal + kMinShare - 1) << "block " << block;
  }
}

// Each has two parts at most where there are more than a wave.
TEST_P(TileScheduleTest, ManyTilesHaveFewParts) {
  const TileSchedule schedule = Split();
  if (schedule.split_tiles < kWave) return;
  EXPECT_GE(schedule.share, schedule.stages);
}

INSTANTIATE_TEST_SUITE_P(Launches, TileScheduleTest,
                         ::testing::ValuesIn(kLaunches), [](const auto& info) {
                           return std::to_string(info.param.tiles) + "x" +
                                  std::to_string(info.param.stages);
                         });

}  // namespace
}  // namespace qgemm::cuda
