// SPDX-License-Identifier: Apache-2.0
//
// How many tokens a tile of the wide family has: as many as take the least
// time, which is estimated here for other families to compare with.

#ifndef QGEMM_KERNELS_CUDA_TUNING_WIDE_CHOICE_H_
#define QGEMM_KERNELS_CUDA_TUNING_WIDE_CHOICE_H_

#include <cstdint>

#include "kernels/cuda/tuning/tile_layout.h"
#include "kernels/cuda/tuning/wide_order.h"

namespace qgemm::cuda {

// Tiles of more than 128 tokens leave no registers for sums of their own, which
// scales that change along K need, and no room for the table of 5 bits.
constexpr bool OffersManyTokens(int codes, ScaleKind scale) {
  return codes < 5 && (scale == ScaleKind::kE4m4 || scale == ScaleKind::kRow);
}

// A multiplication and where it runs.
struct WideWork {
  int64_t m = 1;
  int64_t n = 1;
  int stages = 1;  // of 128 columns of k
  bool offers_many_tokens = false;
  int multiprocessors = 132;
};

// What a tile of that many tokens takes on a multiprocessor, in microseconds.
struct WideCost {
  int tokens;
  double stage;       // where few others work,
  double full_stage;  // and where all do
  double tile;        // of its store, while nothing is multiplied
};
// kbit4 on an H100, 2048x1536 to 28672x8192 at M = 128 to 4096; 192 between.
inline constexpr WideCost kWideCosts[] = {{64, 0.57, 0.60, 1.0},
                                          {128, 0.82, 0.89, 1.0},
                                          {192, 0.98, 1.11, 1.5},
                                          {256, 1.15, 1.33, 2.0}};
inline constexpr double kWideLaunchMicroseconds = 1.5;

// With tiles of that cost.
constexpr double WideMicroseconds(const WideWork& work, const WideCost& cost) {
  const int64_t tiles = (work.n + kWideRows - 1) / kWideRows *
                        ((work.m + cost.tokens - 1) / cost.tokens);
  const int64_t waves =
      (tiles + work.multiprocessors - 1) / work.multiprocessors;
  const double busy =
      static_cast<double>(tiles) / static_cast<double>(work.multiprocessors);
  const double stage =
      cost.stage + (cost.full_stage - cost.stage) * (busy < 1 ? busy : 1);
  return kWideLaunchMicroseconds +
         static_cast<double>(waves) * (work.stages * stage + cost.tile);
}

constexpr WideCost BestWideCost(const WideWork& work) {
  WideCost best = kWideCosts[0];
  for (const WideCost& cost : kWideCosts) {
    if (cost.tokens > 128 && !work.offers_many_tokens) continue;
    if (WideMicroseconds(work, cost) < WideMicroseconds(work, best)) {
      best = cost;
    }
  }
  return best;
}

// Tokens of a tile, of kWideTokenCounts.
constexpr int WideTokens(const WideWork& work) {
  return BestWideCost(work).tokens;
}

// With tiles of WideTokens.
constexpr double WideMicroseconds(const WideWork& work) {
  return WideMicroseconds(work, BestWideCost(work));
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_TUNING_WIDE_CHOICE_H_
