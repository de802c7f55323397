// SPDX-License-Identifier: Apache-2.0
//
// The layers that the prefill kernel multiplies, the height of its tiles and
// their split along K: those with the least estimated time. ChooseKernelPath
// uses the estimate.

#ifndef QGEMM_KERNELS_CUDA_PLAN_PREFILL_PLAN_H_
#define QGEMM_KERNELS_CUDA_PLAN_PREFILL_PLAN_H_

#include <cstdint>

#include "base/host_device.h"
#include "kernels/cuda/layout/device_traits.h"
#include "kernels/cuda/layout/tile_layout.h"
#include "kernels/cuda/plan/handed_sums.h"
#include "kernels/cuda/plan/smem_layout.h"
#include "kernels/cuda/plan/tile_scheduler.h"

namespace qgemm::cuda {

// A multiplication and where it runs.
struct PrefillWork {
  int64_t m = 1;
  int64_t n = 1;
  int stages = 1;  // of 128 columns of k
  bool offers_tall_tiles = false;
  int sm_count = 132;
};

// The time of a tile of that many rows of A on an SM, in microseconds.
struct PrefillCost {
  int tile_m;
  double stage;        // where few others work,
  double full_stage;   // where all do,
  double split_stage;  // and where they do not read the same columns at a time
  double tile;         // of its store, while nothing is multiplied
  double part;         // of a split tile: its sums are handed over and added
};
// kbit4 on an H200, 1024x4096 to 28672x8192 at M = 128 to 1024, within 4 %
// (root mean square); 192 by eye.
inline constexpr PrefillCost kPrefillCosts[] = {
    {64, 0.55, 0.60, 0.61, 1.0, 0.80},
    {128, 0.71, 0.79, 0.83, 1.4, 0.95},
    {192, 0.90, 1.03, 1.10, 1.6, 1.20},
    {256, 1.08, 1.32, 1.39, 2.0, 1.45}};
inline constexpr double kPrefillLaunchMicroseconds = 1.5;
// Tiles for each SM from which on none is split: there is little to win.
inline constexpr int64_t kMaxSplitWaves = 16;
// Stages of a tile that is split, at most: ints count those of two waves.
inline constexpr int kMaxSplitStages = 1 << 20;

constexpr int64_t PrefillTiles(const PrefillWork& work, int tile_m) {
  return CeilDiv(work.n, int64_t{kPrefillTileN}) *
         CeilDiv(work.m, int64_t{tile_m});
}

// True if tiles of that height may be split, and not all SMs have as many.
constexpr bool OffersSplit(const PrefillWork& work, int tile_m) {
  const int64_t tiles = PrefillTiles(work, tile_m);
  return work.sm_count <= kMaxHandingBlocks &&
         tiles < kMaxSplitWaves * work.sm_count && tiles % work.sm_count != 0 &&
         work.stages < kMaxSplitStages;
}

// With whole tiles of that cost.
constexpr double WholeTilesMicroseconds(const PrefillWork& work,
                                        const PrefillCost& cost) {
  const int64_t tiles = PrefillTiles(work, cost.tile_m);
  const int64_t waves = CeilDiv(tiles, int64_t{work.sm_count});
  const double busy =
      static_cast<double>(tiles) / static_cast<double>(work.sm_count);
  const double stage =
      cost.stage + (cost.full_stage - cost.stage) * (busy < 1 ? busy : 1);
  return kPrefillLaunchMicroseconds +
         static_cast<double>(waves) * (work.stages * stage + cost.tile);
}

// As SplitTiles, for tiles that OffersSplit is true of.
constexpr TileSchedule SplitTilesOf(const PrefillWork& work, int tile_m) {
  return SplitTiles(static_cast<int>(PrefillTiles(work, tile_m)), work.stages,
                    work.sm_count);
}

// With tiles of that cost, the last of which are split.
constexpr double SplitTilesMicroseconds(const PrefillWork& work,
                                        const PrefillCost& cost) {
  const TileSchedule schedule = SplitTilesOf(work, cost.tile_m);
  const int stages = schedule.rounds * work.stages + schedule.share;
  return kPrefillLaunchMicroseconds + stages * cost.split_stage +
         CeilDiv(schedule.tiles, schedule.blocks) * cost.tile +
         CeilDiv(work.stages, schedule.share) * cost.part;
}

constexpr double PrefillMicroseconds(const PrefillWork& work,
                                     const PrefillCost& cost, bool splits) {
  return splits ? SplitTilesMicroseconds(work, cost)
                : WholeTilesMicroseconds(work, cost);
}

struct PrefillEstimate {
  PrefillTiling tiling;
  double microseconds = 0;
};

// The tiling with the least time of those that are offered.
constexpr PrefillEstimate BestPrefillEstimate(const PrefillWork& work) {
  PrefillEstimate best;
  for (const PrefillCost& cost : kPrefillCosts) {
    if (cost.tile_m > 128 && !work.offers_tall_tiles) continue;
    for (const bool splits : {false, true}) {
      if (splits && !OffersSplit(work, cost.tile_m)) continue;
      const double time = PrefillMicroseconds(work, cost, splits);
      if (best.tiling.tile_m == 0 || time < best.microseconds) {
        best = {{cost.tile_m, splits}, time};
      }
    }
  }
  return best;
}

// Tiles and stages of a launch, at most; their indices are ints.
inline constexpr int64_t kMaxPrefillCount = int64_t{1} << 30;

// True if the device runs the prefill kernels at all.
inline bool RunsPrefill(const DeviceTraits& device) {
  return device.has_wgmma && device.shared_bytes_per_block >= kMaxBlockBytes;
}

constexpr bool IsPrefillTileM(int tile_m) {
  for (const int offered : kPrefillTileMs) {
    if (offered == tile_m) return true;
  }
  return false;
}

// True if the prefill kernel multiplies layers of that layout on that device,
// in tiles of `tile_m` rows of A. Scales in fp16, bf16 or fp32 must not change
// within 128 columns, and not at all in tiles of more than 128 rows.
inline bool OffersPrefill(const TileLayout& layout, const DeviceTraits& device,
                          int tile_m = 128) {
  const bool whole = layout.groups == 1 ||
                     layout.scale_kind == ScaleKind::kE4m4 ||
                     layout.scale_kind == ScaleKind::kRow;
  const bool has_tiles =
      tile_m <= 128 || OffersTallTiles(layout.codes, layout.scale_kind);
  return RunsPrefill(device) && IsPrefillTileM(tile_m) && whole && has_tiles &&
         layout.n <= kMaxPrefillCount && layout.k_tiles <= kMaxPrefillCount;
}

inline PrefillWork PrefillWorkOf(const TileLayout& layout, int64_t m,
                                 const DeviceTraits& device) {
  PrefillWork work;
  work.m = m;
  work.n = layout.n;
  work.stages = static_cast<int>(layout.k_tiles);
  work.offers_tall_tiles = OffersTallTiles(layout.codes, layout.scale_kind);
  work.sm_count = device.sm_count > 1 ? device.sm_count : 1;
  return work;
}

// The tiling of a launch of m rows of A, and about how long it takes. Only for
// layouts that are offered.
inline PrefillEstimate EstimatePrefill(const TileLayout& layout, int64_t m,
                                       const DeviceTraits& device) {
  return BestPrefillEstimate(PrefillWorkOf(layout, m, device));
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_PREFILL_PLAN_H_
