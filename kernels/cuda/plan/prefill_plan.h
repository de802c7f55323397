// SPDX-License-Identifier: Apache-2.0
//
// The layers that the prefill kernel multiplies, and the height of its tiles:
// the one with the least estimated time. ChooseKernelPath uses the estimate.

#ifndef QGEMM_KERNELS_CUDA_PLAN_PREFILL_PLAN_H_
#define QGEMM_KERNELS_CUDA_PLAN_PREFILL_PLAN_H_

#include <cstdint>

#include "base/host_device.h"
#include "kernels/cuda/layout/device_traits.h"
#include "kernels/cuda/layout/tile_layout.h"
#include "kernels/cuda/plan/smem_layout.h"

namespace qgemm::cuda {

// Tiles of more than 128 rows of A leave no registers for sums of their own,
// which scales that change along K need, and no room for the table of 5 bits.
constexpr bool OffersTallTiles(int codes, ScaleKind scale) {
  return codes < 5 && (scale == ScaleKind::kE4m4 || scale == ScaleKind::kRow);
}

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
  double stage;       // where few others work,
  double full_stage;  // and where all do
  double tile;        // of its store, while nothing is multiplied
};
// kbit4 on an H100, 2048x1536 to 28672x8192 at M = 128 to 4096; 192 between.
inline constexpr PrefillCost kPrefillCosts[] = {{64, 0.57, 0.60, 1.0},
                                                {128, 0.82, 0.89, 1.0},
                                                {192, 0.98, 1.11, 1.5},
                                                {256, 1.15, 1.33, 2.0}};
inline constexpr double kPrefillLaunchMicroseconds = 1.5;

// With tiles of that cost.
constexpr double PrefillMicroseconds(const PrefillWork& work,
                                     const PrefillCost& cost) {
  const int64_t tiles =
      CeilDiv(work.n, kPrefillTileN) * CeilDiv(work.m, cost.tile_m);
  const int64_t waves = CeilDiv(tiles, work.sm_count);
  const double busy =
      static_cast<double>(tiles) / static_cast<double>(work.sm_count);
  const double stage =
      cost.stage + (cost.full_stage - cost.stage) * (busy < 1 ? busy : 1);
  return kPrefillLaunchMicroseconds +
         static_cast<double>(waves) * (work.stages * stage + cost.tile);
}

constexpr PrefillCost BestPrefillCost(const PrefillWork& work) {
  PrefillCost best = kPrefillCosts[0];
  for (const PrefillCost& cost : kPrefillCosts) {
    if (cost.tile_m > 128 && !work.offers_tall_tiles) continue;
    if (PrefillMicroseconds(work, cost) < PrefillMicroseconds(work, best)) {
      best = cost;
    }
  }
  return best;
}

// Rows of A of a tile, of kPrefillTileMs.
constexpr int PrefillTileM(const PrefillWork& work) {
  return BestPrefillCost(work).tile_m;
}

// With tiles of PrefillTileM.
constexpr double PrefillMicroseconds(const PrefillWork& work) {
  return PrefillMicroseconds(work, BestPrefillCost(work));
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

// The height of the tiles that a launch of m rows of A takes, and about how
// long it takes. Only for layouts that are offered.
inline int PrefillTileM(const TileLayout& layout, int64_t m,
                        const DeviceTraits& device) {
  return PrefillTileM(PrefillWorkOf(layout, m, device));
}
inline double PrefillMicroseconds(const TileLayout& layout, int64_t m,
                                  const DeviceTraits& device) {
  return PrefillMicroseconds(PrefillWorkOf(layout, m, device));
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_PREFILL_PLAN_H_
