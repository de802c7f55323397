// SPDX-License-Identifier: Apache-2.0
//
// Estimates how long a launch takes with every partition and takes the
// fastest.

#include "kernels/cuda/tuning/partition.h"

#include <algorithm>

#include "base/checked_math.h"

namespace qgemm::cuda {
namespace {

// Column tiles of a block, at least: fewer do not fill its pipeline.
constexpr int64_t kMinColumnTiles = 2;
// Groups of four warps in a block, and row tiles of a group.
constexpr int kGroups = 4;
constexpr int kGroupTiles = 4;

// The estimate's constants, in microseconds and bytes. They were fitted to 130
// partitions of 16 layers, kbit4 at M = 1, 16 and 64, measured on one H100 with
// launches back to back: they meet the times within 7.5 % (root mean square)
// and choose the fastest partition, or one 2 % slower, for all 16.
constexpr double kMeasuredMultiprocessors = 132;
constexpr double kStageMicros = 0.166;    // a stage of a group of warps,
constexpr double kGroupMicros = 0.104;    // more for each group in the block,
constexpr double kTokenMicros = 0.0013;   // and more for each token of each.
constexpr double kMemoryBytes = 3.047e6;  // a microsecond, from memory
constexpr double kCacheBytes = 9.6e6;     // from the second-level cache
constexpr double kBlockBytes = 8.0e4;     // into one block
// Where a launch leaves multiprocessors free the next one starts to fetch its
// weights: the most that this saves.
constexpr double kOverlapMicros = 1.85;
// A row tile of 128 columns at 4 bits with its scales; a token's.
constexpr double kTileBytes = 1152;
constexpr double kTokenBytes = 256;

// What every launch of 64 tokens takes beside: the estimate then meets 16
// layers within 12 %.
constexpr double kLaunchMicros = 5.5;

// Of blocks that exchange sums.
double ExchangeMicros(int splits) {
  switch (splits) {
    case 1:
      return 0;
    case 2:
      return 1;
    case 4:
      return 1.25;
  }
  return 1.75;
}

// Clusters of `splits` blocks that run at once. A cluster does not cross a
// GPC, whose multiprocessors 4 and 8 need not divide: an H100's 132 hold 66,
// 30 and 15 clusters of 2, 4 and 8 (the driver's occupancy query).
int64_t ClustersAtOnce(int splits, const DeviceTraits& device) {
  const int64_t usable =
      splits >= 4 ? device.multiprocessors * 10 / 11 : device.multiprocessors;
  return std::max<int64_t>(1, usable / splits);
}

struct LayerTiles {
  int64_t rows;
  int64_t columns;
};

Partition PartitionOf(const LayerTiles& tiles, int row_tiles, int splits) {
  Partition partition;
  partition.row_tiles = row_tiles;
  partition.splits = splits;
  partition.row_blocks = CeilDiv(tiles.rows, row_tiles);
  // As many groups of warps as there may be.
  partition.column_warps =
      kGroups / static_cast<int>(CeilDiv(int64_t{row_tiles}, kGroupTiles));
  return partition;
}

// Microseconds of a launch with `tokens` tokens, without what is the same for
// all partitions.
double Estimate(const LayerTiles& tiles, const Partition& partition,
                double tokens, const DeviceTraits& device) {
  const double share = device.multiprocessors / kMeasuredMultiprocessors;
  const double waves = static_cast<double>(
      CeilDiv(partition.row_blocks, ClustersAtOnce(partition.splits, device)));
  const double blocks =
      static_cast<double>(partition.row_blocks * partition.splits);
  const double stages =
      static_cast<double>(CeilDiv(tiles.columns, int64_t{partition.splits}));
  const double turns = static_cast<double>(
      CeilDiv(CeilDiv(tiles.columns, int64_t{partition.splits}),
              int64_t{partition.column_warps}));
  const double groups =
      static_cast<double>(CeilDiv(int64_t{partition.row_tiles}, kGroupTiles)) *
      partition.column_warps;
  const double weights =
      static_cast<double>(tiles.rows) * tiles.columns * kTileBytes;
  const double stage_micros =
      kStageMicros + (kGroupMicros + kTokenMicros * tokens) * groups;
  const double stage_bytes =
      partition.row_tiles * kTileBytes + tokens * kTokenBytes;
  const double activations = blocks * stages * tokens * kTokenBytes;
  const double busy =
      std::max({waves * turns * stage_micros, weights / (kMemoryBytes * share),
                (weights + activations) / (kCacheBytes * share),
                waves * stages * stage_bytes / kBlockBytes});
  const double idle = std::max(0.0, device.multiprocessors / blocks - 1);
  return busy + ExchangeMicros(partition.splits) -
         kOverlapMicros * std::min(1.0, idle);
}

// Rows beyond the layer's are kept and multiplied for nothing: 4 % at most.
bool PadsLittle(const LayerTiles& tiles, const Partition& partition) {
  const int64_t padding =
      partition.row_blocks * partition.row_tiles - tiles.rows;
  return padding * 25 <= tiles.rows;
}

// Few tokens are what launches mostly have; many must not suffer for them.
double Cost(const LayerTiles& tiles, const Partition& partition,
            const DeviceTraits& device) {
  return 2 * Estimate(tiles, partition, 1, device) +
         Estimate(tiles, partition, 64, device);
}

LayerTiles TilesOf(const PartitionedLayer& layer) {
  return {CeilDiv(layer.n, int64_t{kTileRows}),
          CeilDiv(layer.k, int64_t{kTileColumns})};
}

}  // namespace

double SmallMicroseconds(const PartitionedLayer& layer,
                         const Partition& partition,
                         const DeviceTraits& device) {
  return kLaunchMicros + Estimate(TilesOf(layer), partition, 64, device);
}

Partition ChoosePartition(const PartitionedLayer& layer,
                          const DeviceTraits& device) {
  const LayerTiles tiles = TilesOf(layer);
  Partition best = PartitionOf(tiles, 1, 1);
  double best_cost = Cost(tiles, best, device);
  for (const int splits : {1, 2, 4, 8}) {
    if (splits > 1 && !device.has_clusters()) break;
    if (splits > 1 && tiles.columns < splits * kMinColumnTiles) break;
    for (int row_tiles = 1; row_tiles <= layer.max_row_tiles; ++row_tiles) {
      const Partition candidate = PartitionOf(tiles, row_tiles, splits);
      if (!PadsLittle(tiles, candidate)) continue;
      const double cost = Cost(tiles, candidate, device);
      if (cost >= best_cost) continue;
      best = candidate;
      best_cost = cost;
    }
  }
  return best;
}

}  // namespace qgemm::cuda
