// SPDX-License-Identifier: Apache-2.0
//
// Shared memory of a block in the wide family: the decode table, a ring of
// panels of activations (a tile's tokens by 64 columns), a ring of stages of
// weights (128 columns), room to turn results round, barriers.

#ifndef QGEMM_KERNELS_CUDA_TUNING_WIDE_PLAN_H_
#define QGEMM_KERNELS_CUDA_TUNING_WIDE_PLAN_H_

#include "kernels/cuda/tuning/shared_plan.h"
#include "kernels/cuda/tuning/wide_order.h"

namespace qgemm::cuda {

constexpr int WidePanelBytes(int tokens) { return tokens * kPanelTokenBytes; }
// Groups of four warps that multiply.
inline constexpr int kWideGroups = kWideRowTiles / 4;
inline constexpr int kMinWidePanels = 4;
inline constexpr int kMaxWidePanels = 12;
inline constexpr int kMaxWideStages = 6;

// Results are turned round in rows of 128 bytes. Rows of tables of 3 and 4 bits
// have 256 bytes, of which lookups leave the upper half: room for a tile.
inline constexpr int kStagedRowBytes = 128;
constexpr bool TableHasRoom(int codes) { return codes == 3 || codes == 4; }
// Of a group of warps.
constexpr int StagedRows(int codes) { return TableHasRoom(codes) ? 128 : 32; }
constexpr int StagedRowStride(int codes) {
  return TableHasRoom(codes) ? 256 : kStagedRowBytes;
}

// Offsets from the start of shared memory, and the number of slots.
struct WidePlan {
  int panels = 0;
  int stages = 0;
  int panels_offset = 0;
  int stages_offset = 0;
  int staged_offset = 0;
  int barriers_offset = 0;  // of panels, then of stages
  int total = 0;
};

// Rings as deep as fit for tiles of that many tokens; no panels if not even
// four of them and two stages do. A stage's slot is
// free as soon as its codes are in registers, a panel's only when it has been
// multiplied, so that there may be fewer stages.
inline WidePlan PlanWide(int codes, int tokens, int stage_bytes) {
  WidePlan plan;
  const int staged_bytes =
      TableHasRoom(codes)
          ? 0
          : kWideGroups * StagedRows(codes) * StagedRowStride(codes);
  const int barrier_bytes = (kMaxWidePanels + kMaxWideStages) * kBarrierBytes;
  const int room =
      kMaxBlockBytes - TableBytes(codes) - staged_bytes - barrier_bytes;
  int best = 0;
  const int panel_bytes = WidePanelBytes(tokens);
  for (int panels = kMinWidePanels; panels <= kMaxWidePanels; ++panels) {
    int stages = (room - panels * panel_bytes) / stage_bytes;
    if (stages < 2) break;
    if (stages > kMaxWideStages) stages = kMaxWideStages;
    const int depth = panels < 2 * stages + 2 ? panels : 2 * stages + 2;
    if (depth < best) continue;
    best = depth;
    plan.panels = panels;
    plan.stages = stages;
  }
  plan.panels_offset = TableBytes(codes);
  plan.stages_offset = plan.panels_offset + plan.panels * panel_bytes;
  plan.staged_offset = plan.stages_offset + plan.stages * stage_bytes;
  plan.barriers_offset = plan.staged_offset + staged_bytes;
  if (TableHasRoom(codes)) plan.staged_offset = kStagedRowBytes;
  plan.total = plan.barriers_offset + barrier_bytes;
  return plan;
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_TUNING_WIDE_PLAN_H_
