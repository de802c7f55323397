// SPDX-License-Identifier: Apache-2.0
//
// The order in which blocks of threads of the prefill kernel take the tiles of
// C: tiles that are multiplied at the same time share rows of W and rows of A,
// which then come from L2. Tiles that would leave SMs idle are split along K
// (stream-K).

#ifndef QGEMM_KERNELS_CUDA_PLAN_TILE_SCHEDULER_H_
#define QGEMM_KERNELS_CUDA_PLAN_TILE_SCHEDULER_H_

#include "base/host_device.h"
#include "kernels/cuda/layout/tile_layout.h"

namespace qgemm::cuda {

// Tiles of more than 128 rows of A leave no registers for sums of their own,
// which scales of bf16 and fp32 need, and no room for the table of 5 bits.
constexpr bool OffersTallTiles(int codes, ScaleKind scale) {
  return codes != 5 &&
         (scale == ScaleKind::kE4m4 || scale == ScaleKind::kFloat16 ||
          scale == ScaleKind::kRow);
}

// Row blocks that are taken before the next rows of A. A row block's weights
// are a quarter of the bytes of as many rows of A, or less.
inline constexpr int kRasterDepth = 16;

struct TileGrid {
  int n_blocks = 1;
  int m_blocks = 1;
};

// A tile's rows of W and of A, in units of a tile's.
struct OutputTile {
  int n_block;
  int m_block;
};

QGEMM_HOST_DEVICE constexpr int TileCount(const TileGrid& grid) {
  return grid.n_blocks * grid.m_blocks;
}

// The tile at `index`, 0 to TileCount - 1.
QGEMM_HOST_DEVICE constexpr OutputTile TileAt(const TileGrid& grid, int index) {
  const int group = index / (kRasterDepth * grid.m_blocks);
  const int first = group * kRasterDepth;
  const int left = grid.n_blocks - first;
  const int rows = left < kRasterDepth ? left : kRasterDepth;
  const int within = index - first * grid.m_blocks;
  return {first + within % rows, within / rows};
}

// The way of a launch through C.
struct PrefillTiling {
  int tile_m = 0;       // rows of A of a tile, of kPrefillTileMs
  bool splits = false;  // SplitTiles rather than WholeTiles
  // Two blocks of a cluster share pieces: a block of the schedule is a pair, a
  // stage two column tiles.
  bool pairs = false;
};

// Column tiles `begin` to `end` of a tile of C.
struct TilePiece {
  int tile;
  int begin;
  int end;
};

// The share of each block in the tiles of a launch. The first ones go round the
// blocks. The last `split_tiles` are split: their stages, counted tile by tile,
// are cut into shares of `share` stages, one a block.
//
// A block has its pieces in this order: the begin of a tile that a later block
// ends, to which it hands its sums over; whole tiles; the end of a tile, to
// which it adds the sums that blocks before it handed over. Nobody waits before
// handing over, and blocks start in order, so that no block waits for ever.
struct TileSchedule {
  int tiles = 1;
  int stages = 1;  // of a tile: its column tiles
  int blocks = 1;
  int rounds = 1;  // tiles that go round, of a block at most
  int split_tiles = 0;
  int share = 0;
};

// Stages of a share, at least: fewer cost more time to add up than they take.
inline constexpr int kMinShare = 4;

// No tile is split.
QGEMM_HOST_DEVICE constexpr TileSchedule WholeTiles(int tiles, int stages,
                                                    int sm_count) {
  const int blocks = tiles < sm_count ? tiles : sm_count;
  return {tiles, stages, blocks, CeilDiv(tiles, blocks), 0, 0};
}

// The tiles that do not fill all SMs are split, together with those of the wave
// before them, where there is one: a tile then has two parts at most.
QGEMM_HOST_DEVICE constexpr TileSchedule SplitTiles(int tiles, int stages,
                                                    int sm_count) {
  const int waves = tiles / sm_count;
  if (tiles == waves * sm_count) return WholeTiles(tiles, stages, sm_count);
  const int rounds = waves > 1 ? waves - 1 : 0;
  const int split = tiles - rounds * sm_count;
  const int equal = CeilDiv(split * stages, sm_count);
  const int share = equal > kMinShare ? equal : kMinShare;
  // As few blocks as have no more to do: parts then mostly begin with tiles.
  const int blocks = rounds > 0 ? sm_count : CeilDiv(split * stages, share);
  return {tiles, stages, blocks, rounds, split, share};
}

// A block's share of the split tiles: from stage `begin` of the first tile to
// stage `end` of the last, which is not in it if that is 0.
struct BlockShare {
  int first = 0;
  int begin = 0;
  int last = 0;
  int end = 0;
};

QGEMM_HOST_DEVICE constexpr BlockShare ShareOf(const TileSchedule& schedule,
                                               int block) {
  if (schedule.split_tiles == 0) return {};
  const int all = schedule.split_tiles * schedule.stages;
  const int from = block * schedule.share;
  const int begin = from < all ? from : all;
  const int end = all - begin < schedule.share ? all : begin + schedule.share;
  const int first = begin / schedule.stages;
  const int last = end / schedule.stages;
  return {first, begin - first * schedule.stages, last,
          end - last * schedule.stages};
}

// The pieces of a block, one after the other.
class BlockPieces {
 public:
  QGEMM_HOST_DEVICE constexpr BlockPieces(const TileSchedule& schedule,
                                          int block)
      : schedule_(schedule), block_(block), share_(ShareOf(schedule, block)) {}

  QGEMM_HOST_DEVICE constexpr int Count() const {
    return Handed() + Round() + share_.last - share_.first;
  }

  // `index` is 0 to Count() - 1.
  QGEMM_HOST_DEVICE constexpr TilePiece At(int index) const {
    const int split = schedule_.tiles - schedule_.split_tiles;
    if (index < Handed()) {
      const int begin = share_.first == share_.last ? share_.begin : 0;
      return {split + share_.last, begin, share_.end};
    }
    // Split tiles come last first, so that the one that others began ends.
    const int ended = Count() - 1 - index;
    if (ended < share_.last - share_.first) {
      return {split + share_.first + ended, ended == 0 ? share_.begin : 0,
              schedule_.stages};
    }
    return {block_ + (index - Handed()) * schedule_.blocks, 0,
            schedule_.stages};
  }

  // Pieces that are handed over: the first, or none.
  QGEMM_HOST_DEVICE constexpr int Handed() const {
    return share_.end > 0 ? 1 : 0;
  }

 private:
  // Tiles of those that go round.
  QGEMM_HOST_DEVICE constexpr int Round() const {
    const int last = block_ + (schedule_.rounds - 1) * schedule_.blocks;
    const bool ends = last >= schedule_.tiles - schedule_.split_tiles;
    return schedule_.rounds - (schedule_.rounds > 0 && ends ? 1 : 0);
  }

  const TileSchedule& schedule_;
  const int block_;
  const BlockShare share_;
};

// The block that has the first part of a split tile; those from it on to the
// one that ends the tile have a part each.
QGEMM_HOST_DEVICE constexpr int FirstBlockOf(const TileSchedule& schedule,
                                             int tile) {
  return (tile - schedule.tiles + schedule.split_tiles) * schedule.stages /
         schedule.share;
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_TILE_SCHEDULER_H_
