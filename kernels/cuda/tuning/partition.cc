// SPDX-License-Identifier: Apache-2.0
//
// Scores every split and takes the best.

#include "kernels/cuda/tuning/partition.h"

#include <algorithm>

#include "base/checked_math.h"

namespace qgemm::cuda {
namespace {

// Column tiles of a block, at least: fewer do not fill its pipeline.
constexpr int64_t kMinColumnTiles = 2;
// What is lost, in parts of the device's time. Measured on an H100, kbit4 at
// M = 1: 14336x4096 takes 15.9 us with 4 row tiles and 2 splits, 20.4 with 2
// and 1; 2048x1536 takes 4.7 us with 2 splits, 5.1 with 4, 7.1 with 8;
// 4096x14336 takes 15.0 us with 7 row tiles and no split, 17 with 14 and 2.
constexpr int kGoodRowTiles = 7;
constexpr double kNarrowCost = 0.05;
constexpr int kEnoughRowTiles = 3;
constexpr double kMissingRowTileCost = 0.1;

double SplitCost(int splits) {
  switch (splits) {
    case 1:
      return 0;
    case 2:
      return 0.03;
    case 4:
      return 0.15;
  }
  return 0.40;
}

// Clusters of `splits` blocks that run at once. A cluster does not cross a
// GPC, whose multiprocessors 4 and 8 need not divide: an H100's 132 hold 66,
// 30 and 15 clusters of 2, 4 and 8 (the driver's occupancy query).
int64_t ClustersAtOnce(int splits, const DeviceTraits& device) {
  const int64_t usable =
      splits >= 4 ? device.multiprocessors * 10 / 11 : device.multiprocessors;
  return std::max<int64_t>(1, usable / splits);
}

Partition PartitionOf(int64_t tiles, int splits, const DeviceTraits& device) {
  const int64_t at_once = ClustersAtOnce(splits, device);
  const int64_t waves = CeilDiv(tiles, at_once * kMaxRowTiles);
  Partition partition;
  partition.splits = splits;
  partition.row_tiles = static_cast<int>(CeilDiv(tiles, at_once * waves));
  partition.row_blocks = CeilDiv(tiles, partition.row_tiles);
  // Up to four groups of warps, each with four row tiles.
  const int row_groups = (partition.row_tiles + 3) / 4;
  partition.column_warps = 4 / row_groups;
  return partition;
}

// The part of the device's time that is spent on tiles of the layer.
double Score(const Partition& partition, int64_t tiles,
             const DeviceTraits& device) {
  const int64_t at_once = ClustersAtOnce(partition.splits, device);
  const int64_t waves = CeilDiv(partition.row_blocks, at_once);
  const double slots = static_cast<double>(waves) * device.multiprocessors /
                       partition.splits * partition.row_tiles;
  double score = static_cast<double>(tiles) / slots;
  score -= SplitCost(partition.splits);
  if (partition.row_tiles < kGoodRowTiles) score -= kNarrowCost;
  const int missing = std::max(0, kEnoughRowTiles - partition.row_tiles);
  score -= kMissingRowTileCost * missing;
  return score;
}

}  // namespace

Partition ChoosePartition(int64_t n, int64_t k, const DeviceTraits& device) {
  const int64_t tiles = CeilDiv(n, kTileRows);
  const int64_t column_tiles = CeilDiv(k, kTileColumns);
  Partition best = PartitionOf(tiles, 1, device);
  double best_score = Score(best, tiles, device);
  if (!device.has_clusters()) return best;
  for (const int splits : {2, 4, 8}) {
    if (column_tiles < splits * kMinColumnTiles) break;
    const Partition candidate = PartitionOf(tiles, splits, device);
    const double score = Score(candidate, tiles, device);
    if (score <= best_score) continue;
    best = candidate;
    best_score = score;
  }
  return best;
}

}  // namespace qgemm::cuda
