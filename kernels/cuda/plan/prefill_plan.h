// SPDX-License-Identifier: Apache-2.0
//
// The layers that the prefill kernel multiplies, the height of its tiles, their
// split along K and the pairs of blocks that share them: those with the least
// estimated time. ChooseKernelPath uses the estimate.

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
  double exchange;     // of sums between the blocks of a pair
};
// kbit4 on an H100, 1024x4096 to 28672x8192 at M = 128 to 1024, within 3.5 %
// (root mean square); clocks fall where all SMs work.
inline constexpr PrefillCost kPrefillCosts[] = {
    {64, 0.44, 0.55, 0.55, 0.84, 0.71, 1.25},
    {128, 0.64, 0.78, 0.82, 0.88, 0.92, 1.68},
    {192, 0.77, 1.04, 1.09, 1.53, 1.08, 1.59},
    {256, 1.07, 1.36, 1.45, 1.44, 1.39, 2.06}};
inline constexpr double kPrefillLaunchMicroseconds = 0.94;
// More where it leaves no SM to the next one, else as much less.
inline constexpr double kFullLaunchMicroseconds = 1.20;
// A part's time where a pair has it, against `part`.
inline constexpr double kPairPart = 0.69;
// Stages of a pair's tile, at least, for one that is split: of 2048x1536, which
// has 8, whole tiles took 9.3 us and split ones 11.1 at M = 384.
inline constexpr int kMinPairSplitStages = 16;
// Tiles for each SM from which on none is split: there is little to win.
inline constexpr int64_t kMaxSplitWaves = 16;
// Stages of a tile that is split, at most: ints count those of two waves.
inline constexpr int kMaxSplitStages = 1 << 20;

// The work as the schedule counts it: a pair as a block, two stages as one.
constexpr PrefillWork PlannedWork(PrefillWork work, bool pairs) {
  if (pairs) {
    work.stages = CeilDiv(work.stages, 2);
    work.sm_count = work.sm_count > 1 ? work.sm_count / 2 : 1;
  }
  return work;
}

constexpr int64_t PrefillTiles(const PrefillWork& work, int tile_m) {
  return CeilDiv(work.n, int64_t{kPrefillTileN}) *
         CeilDiv(work.m, int64_t{tile_m});
}

// True if tiles of that height may be split, and not all SMs, or all pairs of
// SMs, have as many.
constexpr bool OffersSplit(const PrefillWork& work, int tile_m,
                           bool pairs = false) {
  const PrefillWork planned = PlannedWork(work, pairs);
  const int64_t tiles = PrefillTiles(work, tile_m);
  return work.sm_count <= kMaxHandingBlocks &&
         tiles < kMaxSplitWaves * planned.sm_count &&
         tiles % planned.sm_count != 0 && work.stages < kMaxSplitStages;
}

// Share of the SMs that as many blocks keep busy.
constexpr double BusyShare(const PrefillWork& work, int64_t blocks) {
  return blocks < work.sm_count ? static_cast<double>(blocks) / work.sm_count
                                : 1;
}

// With whole tiles of that cost.
constexpr double WholeTilesMicroseconds(const PrefillWork& work,
                                        const PrefillCost& cost) {
  const int64_t tiles = PrefillTiles(work, cost.tile_m);
  const int64_t waves = CeilDiv(tiles, int64_t{work.sm_count});
  const double busy = BusyShare(work, tiles);
  const double stage = cost.stage + (cost.full_stage - cost.stage) * busy;
  return kPrefillLaunchMicroseconds + busy * kFullLaunchMicroseconds +
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
  return kPrefillLaunchMicroseconds +
         BusyShare(work, schedule.blocks) * kFullLaunchMicroseconds +
         stages * cost.split_stage +
         CeilDiv(schedule.tiles, schedule.blocks) * cost.tile +
         CeilDiv(work.stages, schedule.share) * cost.part;
}

// With tiles of that height.
constexpr TileSchedule ScheduleOf(const PrefillWork& work,
                                  const PrefillTiling& tiling) {
  const PrefillWork planned = PlannedWork(work, tiling.pairs);
  return tiling.splits
             ? SplitTilesOf(planned, tiling.tile_m)
             : WholeTiles(static_cast<int>(PrefillTiles(work, tiling.tile_m)),
                          planned.stages, planned.sm_count);
}

constexpr bool OffersTiling(const PrefillWork& work,
                            const PrefillTiling& tiling) {
  return (tiling.tile_m <= 128 || work.offers_tall_tiles) &&
         (!tiling.pairs || work.sm_count > 1) &&
         (!tiling.splits || (OffersSplit(work, tiling.tile_m, tiling.pairs) &&
                             (!tiling.pairs || PlannedWork(work, true).stages >=
                                                   kMinPairSplitStages)));
}

// `cost` is that of the tiling's height. The blocks of a pair store, hand over
// and add half a tile each, after an exchange.
constexpr double PrefillMicroseconds(const PrefillWork& work, PrefillCost cost,
                                     const PrefillTiling& tiling) {
  if (tiling.pairs) {
    cost.tile = cost.tile / 2 + cost.exchange;
    cost.part *= kPairPart;
  }
  const PrefillWork planned = PlannedWork(work, tiling.pairs);
  return tiling.splits ? SplitTilesMicroseconds(planned, cost)
                       : WholeTilesMicroseconds(planned, cost);
}

struct PrefillEstimate {
  PrefillTiling tiling;
  double microseconds = 0;
};

// The tiling with the least time of those that are offered.
constexpr PrefillEstimate BestPrefillEstimate(const PrefillWork& work) {
  PrefillEstimate best;
  for (const PrefillCost& cost : kPrefillCosts) {
    for (const int kind : {0, 1, 2, 3}) {
      const PrefillTiling tiling = {cost.tile_m, (kind & 1) != 0,
                                    (kind & 2) != 0};
      if (!OffersTiling(work, tiling)) continue;
      const double time = PrefillMicroseconds(work, cost, tiling);
      if (best.tiling.tile_m == 0 || time < best.microseconds) {
        best = {tiling, time};
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
// in tiles of `tile_m` rows of A. Scales in bf16 or fp32 must not change
// within 128 columns, and not at all in tiles of more than 128 rows.
inline bool OffersPrefill(const TileLayout& layout, const DeviceTraits& device,
                          int tile_m = 128) {
  const bool whole = layout.groups == 1 ||
                     layout.scale_kind == ScaleKind::kE4m4 ||
                     layout.scale_kind == ScaleKind::kFloat16 ||
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
