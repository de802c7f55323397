// SPDX-License-Identifier: Apache-2.0
//
// The kernel of mode A8 for many rows: layers and devices that have it, the
// order of its sums, shared memory, and the choice between it and the kernel
// for few rows, by estimates of their times. Both give the same bits.

#ifndef QGEMM_KERNELS_CUDA_PLAN_W4A8_PREFILL_PLAN_H_
#define QGEMM_KERNELS_CUDA_PLAN_W4A8_PREFILL_PLAN_H_

#include <cstdint>

#include "base/host_device.h"
#include "kernels/cuda/layout/device_traits.h"
#include "kernels/cuda/layout/q8_layout.h"
#include "kernels/cuda/layout/tile_layout.h"
#include "kernels/cuda/plan/handed_sums.h"
#include "kernels/cuda/plan/prefill_plan.h"
#include "kernels/cuda/plan/smem_layout.h"
#include "kernels/cuda/plan/w4a8_pieces.h"
#include "kernels/cuda/plan/w4a8_plan.h"

namespace qgemm::cuda {

// Rows of A of a tile of C; its rows of W are kPrefillTileN.
inline constexpr int kW4A8PrefillTileMs[] = {64, 128};
inline constexpr int kW4A8PrefillStageBytes =
    kPrefillNTiles * kTileRows * (kTileColumns / 2 + kQ8TileBlocks * 2);

// Parts of K in the order of the kernel for few rows, where blocks of a cluster
// (ranks) have ranges of column tiles and their warps take turns in them. A
// part is one warp's; its column tiles are first, first + step, ...
struct W4A8KOrder {
  int k_tiles = 1;
  int split_k = 1;
  int k_warps = 1;

  QGEMM_HOST_DEVICE constexpr int First(int rank, int turn) const {
    return rank * k_tiles / split_k + turn;
  }
  QGEMM_HOST_DEVICE constexpr int Stages(int rank, int turn) const {
    const int left = (rank + 1) * k_tiles / split_k - First(rank, turn);
    return left > 0 ? CeilDiv(left, k_warps) : 0;
  }
  // Sums that are kept in shared memory while others are added up: of the first
  // two turns, of the third, of the ranks so far.
  QGEMM_HOST_DEVICE constexpr int KeptOfRanks() const {
    return k_warps == 1 ? 0 : k_warps < 4 ? 1 : 2;
  }
  QGEMM_HOST_DEVICE constexpr int kept() const {
    return KeptOfRanks() + (split_k > 1 ? 1 : 0);
  }
};

inline W4A8KOrder W4A8KOrderOf(const TileLayout& layout) {
  return {static_cast<int>(layout.k_tiles), layout.tile_config.split_k,
          layout.tile_config.k_warps};
}

// Offsets from the start of shared memory, and slots. A panel's slot has its
// integers and, elsewhere, its scales.
struct W4A8PrefillSmemLayout {
  PrefillSmemLayout rings;
  int scales_offset = 0;
  int kept_offset = 0;
};

QGEMM_HOST_DEVICE constexpr int W4A8KeptBytes(int tile_m) {
  return tile_m * kPrefillTileN * 4;
}

// No panels if not even four of them and two stages fit.
inline W4A8PrefillSmemLayout W4A8PrefillSmemLayoutOf(int tile_m, int kept) {
  constexpr int kStagedBytes = kPrefillGroups * StagedRows(kTernaryCodes) *
                               StagedRowStride(kTernaryCodes);
  constexpr int kBarriers =
      (kMaxPrefillPanels + kMaxPrefillStages) * kBarrierBytes;
  const int kept_bytes = kept * W4A8KeptBytes(tile_m);
  const int room = kMaxBlockBytes - kStagedBytes - kBarriers - kept_bytes;
  const int scale_bytes = tile_m * kQ8PanelScaleBytes;
  const int slot_bytes = PrefillPanelBytes(tile_m) + scale_bytes;
  W4A8PrefillSmemLayout plan;
  PrefillSmemLayout& rings = plan.rings;
  int deepest = 0;
  for (int stages = 2; stages <= kMaxPrefillStages; ++stages) {
    const int fitting = (room - stages * kW4A8PrefillStageBytes) / slot_bytes;
    if (fitting < kMinPrefillPanels) break;
    const int panels =
        fitting < kMaxPrefillPanels ? fitting : kMaxPrefillPanels;
    const int depth = panels < 2 * stages ? panels : 2 * stages;
    if (depth <= deepest) continue;
    deepest = depth;
    rings.panels = panels;
    rings.stages = stages;
  }
  plan.scales_offset = rings.panels * PrefillPanelBytes(tile_m);
  rings.stages_offset = plan.scales_offset + rings.panels * scale_bytes;
  plan.kept_offset =
      rings.stages_offset + rings.stages * kW4A8PrefillStageBytes;
  rings.staged_offset = plan.kept_offset + kept_bytes;
  rings.barriers_offset = rings.staged_offset + kStagedBytes;
  rings.total = rings.barriers_offset + kBarriers;
  return plan;
}

// True if the kernel for many rows multiplies the layer on the device in tiles
// of that height: blocks of 32 columns with scales, none of whose sums has more
// than one chain.
inline bool OffersW4A8Prefill(const TileLayout& layout,
                              const DeviceTraits& device, int tile_m) {
  return OffersW4A8(layout) && layout.scale_kind == ScaleKind::kFloat16 &&
         RunsPrefill(device) && layout.n <= kMaxPrefillCount &&
         !HasLongChains(W4A8ShapeOf(layout, kDecodeBlockM)) &&
         W4A8PrefillSmemLayoutOf(tile_m, W4A8KOrderOf(layout).kept())
                 .rings.panels > 0;
}

// Measured on an H200, 4096x4096 to 28672x8192 at M = 64 to 512, within 6 %.
inline constexpr double kW4A8LaunchMicroseconds = 3.5;  // quantization too
struct W4A8PrefillCost {
  int tile_m;
  double stage;  // microseconds of a tile's 128 columns
  double part;   // of a part of K: its sums are kept or added
  double tile;   // of its store
};
inline constexpr W4A8PrefillCost kW4A8PrefillCosts[] = {{64, 0.88, 0.6, 0.9},
                                                        {128, 1.43, 1.0, 1.5}};
// Costs of sharing tiles: blocks do not read the same columns at a time, and
// one waits for sums.
inline constexpr double kW4A8SharingFactor = 1.04;
inline constexpr double kW4A8HandOverMicroseconds = 3;
// The kernel for few rows: 128 columns of a row tile and 64 rows on a quarter
// of an SM, and a block's start and end.
inline constexpr double kW4A8TileMicroseconds = 0.366;
inline constexpr double kW4A8BlockMicroseconds = 6.5;

inline double W4A8Microseconds(const TileLayout& layout, int64_t m,
                               const DeviceTraits& device) {
  const TileConfig& config = layout.tile_config;
  const int64_t blocks =
      config.n_blocks * config.split_k * CeilDiv(m, int64_t{kDecodeBlockM});
  const int64_t waves = CeilDiv(blocks, int64_t{device.sm_count});
  const int64_t stages =
      CeilDiv(layout.k_tiles, int64_t{config.split_k} * config.k_warps);
  const int warps = CeilDiv(config.n_tiles * config.k_warps, 4);
  return kW4A8LaunchMicroseconds +
         static_cast<double>(waves) *
             (static_cast<double>(stages * warps) * kW4A8TileMicroseconds +
              kW4A8BlockMicroseconds);
}

// A launch of the kernel for many rows.
struct W4A8PrefillEstimate {
  bool shares = false;  // tiles, as W4A8Pieces says
  double microseconds = 0;
};

inline W4A8PrefillEstimate EstimateW4A8Prefill(const TileLayout& layout,
                                               int64_t m,
                                               const DeviceTraits& device,
                                               const W4A8PrefillCost& cost) {
  const int64_t tiles = CeilDiv(layout.n, int64_t{kPrefillTileN}) *
                        CeilDiv(m, int64_t{cost.tile_m});
  const W4A8KOrder order = W4A8KOrderOf(layout);
  const double tile = order.k_tiles * cost.stage +
                      order.split_k * order.k_warps * cost.part + cost.tile;
  const double waves =
      static_cast<double>(CeilDiv(tiles, int64_t{device.sm_count})) * tile;
  const double shared =
      static_cast<double>(tiles) / device.sm_count * tile * kW4A8SharingFactor +
      kW4A8HandOverMicroseconds;
  // Sums can be handed over where all of K is one part, and are there in time
  // where blocks have a tile or more.
  const bool can_share = order.split_k * order.k_warps == 1 &&
                         tiles >= device.sm_count &&
                         device.sm_count <= kMaxHandingBlocks &&
                         tiles <= kMaxPrefillCount / order.k_tiles;
  const bool shares = can_share && shared < waves;
  return {shares, kW4A8LaunchMicroseconds + (shares ? shared : waves)};
}

// The tiles of the kernel for many rows with the least estimated time, or null
// if it does not multiply the layer.
inline const W4A8PrefillCost* BestW4A8PrefillCost(const TileLayout& layout,
                                                  int64_t m,
                                                  const DeviceTraits& device) {
  const W4A8PrefillCost* best = nullptr;
  for (const W4A8PrefillCost& cost : kW4A8PrefillCosts) {
    if (!OffersW4A8Prefill(layout, device, cost.tile_m)) continue;
    if (best == nullptr ||
        EstimateW4A8Prefill(layout, m, device, cost).microseconds <
            EstimateW4A8Prefill(layout, m, device, *best).microseconds) {
      best = &cost;
    }
  }
  return best;
}

// True if a launch by tiles of `tile_m` rows of A shares tiles.
inline bool SharesW4A8Tiles(const TileLayout& layout, int64_t m,
                            const DeviceTraits& device, int tile_m) {
  for (const W4A8PrefillCost& cost : kW4A8PrefillCosts) {
    if (cost.tile_m == tile_m) {
      return EstimateW4A8Prefill(layout, m, device, cost).shares;
    }
  }
  return false;
}

// Rows of A that the kernel for few rows always takes.
inline constexpr int64_t kMaxFewW4A8Rows = kDecodeBlockM;

// Rows of A of a tile of the kernel for many rows, or 0: the launch of m rows
// goes to the kernel for few.
inline int W4A8PrefillTileM(const TileLayout& layout, int64_t m,
                            const DeviceTraits& device) {
  if (m <= kMaxFewW4A8Rows) return 0;
  const W4A8PrefillCost* const cost = BestW4A8PrefillCost(layout, m, device);
  if (cost == nullptr) return 0;
  return EstimateW4A8Prefill(layout, m, device, *cost).microseconds <
                 W4A8Microseconds(layout, m, device)
             ? cost->tile_m
             : 0;
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_W4A8_PREFILL_PLAN_H_
