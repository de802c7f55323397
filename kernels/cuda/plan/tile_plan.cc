// SPDX-License-Identifier: Apache-2.0
//
// Estimates how long a launch takes with every tile config and takes the
// fastest.

#include "kernels/cuda/plan/tile_plan.h"

#include <algorithm>
#include <limits>

#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/cuda/plan/smem_layout.h"

namespace qgemm::cuda {
namespace {

// Column tiles of a block, at least: fewer do not fill its pipeline.
constexpr int64_t kMinKTiles = 2;
// Blocks of a layer that is multiplied beside a larger one, at least.
constexpr int64_t kMinBlocksBeside = 16;
// Groups of four warps in a block, and row tiles of a group.
constexpr int kGroups = 4;
constexpr int kGroupTiles = 4;

// The estimate's constants, in microseconds and bytes. They were fitted to 130
// tile configs of 16 layers, kbit4 at M = 1, 16 and 64, measured on one H100
// with launches back to back: they meet the times within 7.5 % (root mean
// square) and choose the fastest tile config, or one 2 % slower, for all 16.
constexpr double kMeasuredSmCount = 132;
constexpr double kStageMicros = 0.166;    // a stage of a group of warps,
constexpr double kGroupMicros = 0.104;    // more for each group in the block,
constexpr double kTokenMicros = 0.0013;   // and more for each row of A of each.
constexpr double kMemoryBytes = 3.047e6;  // a microsecond, from memory
constexpr double kCacheBytes = 9.6e6;     // from the L2
constexpr double kBlockBytes = 8.0e4;     // into one block
// The next launch prefetches its weights on SMs that a launch leaves free: the
// most that this saves.
constexpr double kOverlapMicros = 1.85;
// A row tile of 128 columns at 4 bits with its scales; a row's.
constexpr double kTileBytes = 1152;
constexpr double kStageRowBytes = 256;

// Fixed cost of a launch of 64 rows of A: the estimate then meets 16
// layers within 12 %.
constexpr double kLaunchMicros = 5.5;

// Time of the exchange of sums between blocks.
double ExchangeMicros(int split_k) {
  switch (split_k) {
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
// GPC, whose SMs 4 and 8 need not divide: an H100's 132 hold 66,
// 30 and 15 clusters of 2, 4 and 8 (the driver's occupancy query).
int64_t ClustersAtOnce(int split_k, const DeviceTraits& device) {
  const int64_t usable =
      split_k >= 4 ? device.sm_count * 10 / 11 : device.sm_count;
  return std::max<int64_t>(1, usable / split_k);
}

struct LayerTiles {
  int64_t rows;
  int64_t columns;
};

TileConfig TileConfigOf(const LayerTiles& tiles, int n_tiles, int split_k) {
  TileConfig config;
  config.n_tiles = n_tiles;
  config.split_k = split_k;
  config.n_blocks = CeilDiv(tiles.rows, n_tiles);
  // The most groups of warps that a block may have.
  config.k_warps =
      kGroups / static_cast<int>(CeilDiv(int64_t{n_tiles}, kGroupTiles));
  return config;
}

// Microseconds of a launch with `tile_m` rows of A, without what is the same
// for all tile configs.
double Estimate(const LayerTiles& tiles, const TileConfig& config,
                double tile_m, const DeviceTraits& device) {
  const double share = device.sm_count / kMeasuredSmCount;
  const double waves = static_cast<double>(
      CeilDiv(config.n_blocks, ClustersAtOnce(config.split_k, device)));
  const double blocks = static_cast<double>(config.n_blocks * config.split_k);
  const double stages =
      static_cast<double>(CeilDiv(tiles.columns, int64_t{config.split_k}));
  const double slice = static_cast<double>(
      CeilDiv(CeilDiv(tiles.columns, int64_t{config.split_k}),
              int64_t{config.k_warps}));
  const double groups =
      static_cast<double>(CeilDiv(int64_t{config.n_tiles}, kGroupTiles)) *
      config.k_warps;
  const double weights =
      static_cast<double>(tiles.rows) * tiles.columns * kTileBytes;
  const double stage_micros =
      kStageMicros + (kGroupMicros + kTokenMicros * tile_m) * groups;
  const double stage_bytes =
      config.n_tiles * kTileBytes + tile_m * kStageRowBytes;
  const double activations = blocks * stages * tile_m * kStageRowBytes;
  const double busy =
      std::max({waves * slice * stage_micros, weights / (kMemoryBytes * share),
                (weights + activations) / (kCacheBytes * share),
                waves * stages * stage_bytes / kBlockBytes});
  const double idle = std::max(0.0, device.sm_count / blocks - 1);
  return busy + ExchangeMicros(config.split_k) -
         kOverlapMicros * std::min(1.0, idle);
}

// Rows beyond the layer's are kept and multiplied for nothing: 4 % at most.
bool PadsLittle(const LayerTiles& tiles, const TileConfig& config) {
  const int64_t padding = config.n_blocks * config.n_tiles - tiles.rows;
  return padding * 25 <= tiles.rows;
}

// Few rows of A are what launches mostly have; many must not suffer for them.
double Cost(const LayerTiles& tiles, const TileConfig& config,
            const DeviceTraits& device) {
  return 2 * Estimate(tiles, config, 1, device) +
         Estimate(tiles, config, 64, device);
}

LayerTiles TilesOf(const TileConfigProblem& layer) {
  return {CeilDiv(layer.n, int64_t{kTileRows}),
          CeilDiv(layer.k, int64_t{kTileColumns})};
}

// Layers whose rows are at most this share of their columns are the keys and
// values of grouped-query attention.
constexpr int64_t kSharedHeads = 4;

// Bounds of a layer's blocks; each of them may be everything.
struct BlockBounds {
  int64_t blocks = std::numeric_limits<int64_t>::max();
  int split_k = 8;
};

// Keys and values are multiplied beside the queries, a square layer, in one
// launch, whose clusters are the largest of the three (bench/NOTES.md): all
// blocks should run at once.
BlockBounds BoundsOf(const TileConfigProblem& layer,
                     const DeviceTraits& device) {
  if (layer.n > layer.k / kSharedHeads || !device.has_clusters()) return {};
  const TileConfig queries =
      ChooseTileConfig({layer.k, layer.k, layer.max_n_tiles}, device);
  const int64_t rest =
      device.sm_count - queries.n_blocks * int64_t{queries.split_k};
  if (rest < 2 * kMinBlocksBeside || queries.split_k > 2) return {};
  return {rest / 2, 2};
}

// Slots of the ring beside the activations of 64 rows of A, the most there are.
int SlotsOf(const TileLayout& layout, int n_tiles) {
  DecodeSmemShape shape;
  shape.codes = layout.codes;
  shape.tile_m = 64;
  shape.stage_bytes = static_cast<int>(layout.tile_bytes()) * n_tiles;
  shape.n_tiles = n_tiles;
  shape.block_bytes = layout.block_bytes;
  return SlotsThatFit(shape);
}

// Shares the layer out so that a stage fits; a layer without a decode kernel is
// shared out as if there were room.
void SetTileConfig(const DeviceTraits& device, TileLayout& layout) {
  layout.block_bytes = static_cast<int>(
      std::min<int64_t>(kMaxBlockBytes, device.shared_bytes_per_block));
  int max_n_tiles = kMaxNTiles;
  while (max_n_tiles > 1 && SlotsOf(layout, max_n_tiles) < 1) {
    --max_n_tiles;
  }
  layout.has_decode_kernel = SlotsOf(layout, max_n_tiles) >= 1;
  if (!layout.has_decode_kernel) max_n_tiles = kMaxNTiles;
  layout.tile_config =
      ChooseTileConfig({layout.n, layout.k, max_n_tiles}, device);
  // Warps that alternate along K keep to slots of their own.
  layout.tile_config.k_warps =
      std::clamp(SlotsOf(layout, layout.tile_config.n_tiles), 1,
                 layout.tile_config.k_warps);
}

}  // namespace

double DecodeMicroseconds(const TileConfigProblem& layer,
                          const TileConfig& config,
                          const DeviceTraits& device) {
  return kLaunchMicros + Estimate(TilesOf(layer), config, 64, device);
}

TileConfig ChooseTileConfig(const TileConfigProblem& layer,
                            const DeviceTraits& device) {
  const LayerTiles tiles = TilesOf(layer);
  TileConfig best = TileConfigOf(tiles, 1, 1);
  double best_cost = std::numeric_limits<double>::infinity();
  const BlockBounds bounds = BoundsOf(layer, device);
  for (const int split_k : {1, 2, 4, 8}) {
    if (split_k > bounds.split_k) break;
    if (split_k > 1 && !device.has_clusters()) break;
    if (split_k > 1 && tiles.columns < split_k * kMinKTiles) break;
    for (int n_tiles = 1; n_tiles <= layer.max_n_tiles; ++n_tiles) {
      const TileConfig candidate = TileConfigOf(tiles, n_tiles, split_k);
      if (!PadsLittle(tiles, candidate)) continue;
      if (candidate.n_blocks * split_k > bounds.blocks) continue;
      const double cost = Cost(tiles, candidate, device);
      if (cost >= best_cost) continue;
      best = candidate;
      best_cost = cost;
    }
  }
  return best;
}

absl::StatusOr<TileLayout> PlanTileLayout(const WeightsShape& shape,
                                          const DeviceTraits& device) {
  ASSIGN_OR_RETURN(TileLayout layout, DescribeTiles(shape));
  SetTileConfig(device, layout);
  PlaceParts(shape, layout);
  return layout;
}

}  // namespace qgemm::cuda
