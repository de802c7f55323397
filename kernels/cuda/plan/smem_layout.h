// SPDX-License-Identifier: Apache-2.0
//
// Shared memory of a block of threads of the decode and of the prefill kernel.
// Decode: the decode table, a ring of pipeline stages, and room for the sums
// that other blocks of a cluster send. Prefill: the decode table, a ring of
// panels of activations, a ring of stages of weights, room to transpose
// results. Both end with the rings' barriers.

#ifndef QGEMM_KERNELS_CUDA_PLAN_SMEM_LAYOUT_H_
#define QGEMM_KERNELS_CUDA_PLAN_SMEM_LAYOUT_H_

#include "base/host_device.h"

namespace qgemm::cuda {

// The most a block takes; 1 KiB of the 228 that a Hopper SM has is
// the system's, for each block. And what any chip from sm_80 on gives it.
inline constexpr int kMaxBlockBytes = 226 << 10;
inline constexpr int kMinBlockBytes = 99 << 10;
// Bytes of a row of A in a stage: 128 columns of 16 bits, in two panels of 64.
inline constexpr int kStageRowBytes = 256;
inline constexpr int kPanelRowBytes = 128;
inline constexpr int kBarrierBytes = 16;

// Inputs of a decode block's shared memory layout.
struct DecodeSmemShape {
  int codes = 4;   // TileLayout::codes
  int tile_m = 8;  // 8, 16, 32 or 64
  int stage_bytes = 0;
  int n_tiles = 1;
  int split_k = 1;
  int k_warps = 1;
  int block_bytes = kMaxBlockBytes;  // that the block may take
};

// Bytes of the decode table, at offset 0. Ternary codes and those that are
// numbers need none.
QGEMM_HOST_DEVICE constexpr int TableBytes(int codes) {
  if (codes == 5) return 128 << 10;
  return codes >= 2 && codes <= 4 ? 64 << 10 : 0;
}

// Floats between two rows' rows of sums: lanes then write to different
// banks.
QGEMM_HOST_DEVICE constexpr int SumStride(int n_tiles) {
  return n_tiles * 16 + 4;
}

// Bytes of the sums of all warps that share rows.
QGEMM_HOST_DEVICE constexpr int SumBytes(const DecodeSmemShape& shape) {
  return shape.k_warps * shape.tile_m * SumStride(shape.n_tiles) * 4;
}

// Rows of a row block that fall to each block of a cluster of `splits`, the
// last ones left out; a multiple of four.
QGEMM_HOST_DEVICE constexpr int RowsOfRank(int n_tiles, int split_k) {
  return (n_tiles * 4 + split_k - 1) / split_k * 4;
}

// Bytes of the sums that a block receives for the rows that it finishes.
QGEMM_HOST_DEVICE constexpr int ReceivedBytes(const DecodeSmemShape& shape) {
  return (shape.split_k - 1) * shape.tile_m *
         RowsOfRank(shape.n_tiles, shape.split_k) * 4;
}

// True if received sums have room of their own. If not, a block must
// be done with its ring before others send.
QGEMM_HOST_DEVICE constexpr bool ReceivesApart(int tile_m) {
  return tile_m < 64;
}

QGEMM_HOST_DEVICE constexpr int SlotBytes(const DecodeSmemShape& shape) {
  return shape.tile_m * kStageRowBytes + shape.stage_bytes + kBarrierBytes;
}

// Offsets from the start of shared memory.
struct DecodeSmemLayout {
  int activations;
  int weights;
  int barriers;  // of the slots, then one of what is received
  int received;
  int total;
};

QGEMM_HOST_DEVICE constexpr DecodeSmemLayout DecodeSmemLayoutOf(
    const DecodeSmemShape& shape, int slots) {
  DecodeSmemLayout plan{};
  plan.activations = TableBytes(shape.codes);
  plan.weights = plan.activations + slots * shape.tile_m * kStageRowBytes;
  plan.barriers = plan.weights + slots * shape.stage_bytes;
  // Barriers stay clear of the sums.
  const int sums = SumBytes(shape);
  const bool apart = ReceivesApart(shape.tile_m);
  const int end = apart ? sums : sums + ReceivedBytes(shape);
  if (plan.barriers < end) plan.barriers = end;
  const int barriers_end = plan.barriers + (slots + 1) * kBarrierBytes;
  plan.received = apart ? barriers_end : sums;
  plan.total = barriers_end + (apart ? ReceivedBytes(shape) : 0);
  return plan;
}

// Slots that fit; below 1 where not even the table does.
QGEMM_HOST_DEVICE constexpr int SlotsThatFit(const DecodeSmemShape& shape) {
  const int apart = ReceivesApart(shape.tile_m) ? ReceivedBytes(shape) : 0;
  return (shape.block_bytes - TableBytes(shape.codes) - kBarrierBytes - apart) /
         SlotBytes(shape);
}

// Slots of a ring for that many stages, where there is room for `room`. Where
// slots are used again, warps that alternate along K keep to slots of their
// own, so that none waits for a phase that lies two ahead.
QGEMM_HOST_DEVICE constexpr int SlotsInRoom(int room, int stages, int k_warps) {
  return stages <= room ? stages : room / k_warps * k_warps;
}

// A tile of C: rows of W in row tiles of 16, by 64 to 256 rows of A.
inline constexpr int kPrefillNTiles = 8;
inline constexpr int kPrefillTileN = kPrefillNTiles * 16;
inline constexpr int kPrefillTileMs[] = {64, 128, 192, 256};

constexpr int PrefillPanelBytes(int tile_m) { return tile_m * kPanelRowBytes; }
// Groups of four warps that multiply.
inline constexpr int kPrefillGroups = kPrefillNTiles / 4;
inline constexpr int kMinPrefillPanels = 4;
inline constexpr int kMaxPrefillPanels = 12;
inline constexpr int kMaxPrefillStages = 6;

// Results are transposed in rows of 128 bytes. Rows of tables of 3 and 4 bits
// have 256 bytes, of which lookups leave the upper half: room for a tile.
inline constexpr int kStagedRowBytes = 128;
constexpr bool TableHasRoom(int codes) { return codes == 3 || codes == 4; }
// Rows of a group of warps.
constexpr int StagedRows(int codes) { return TableHasRoom(codes) ? 128 : 32; }
constexpr int StagedRowStride(int codes) {
  return TableHasRoom(codes) ? 256 : kStagedRowBytes;
}

// Offsets from the start of shared memory, and the number of slots.
struct PrefillSmemLayout {
  int panels = 0;
  int stages = 0;
  int panels_offset = 0;
  int stages_offset = 0;
  int staged_offset = 0;
  int barriers_offset = 0;    // of panels, then of stages
  int invitation_offset = 0;  // of a pair's other block: a barrier, a slot
  int total = 0;
};

// Rings as deep as fit for tiles of that many rows of A; no panels if not even
// four of them and two stages do. A stage's slot is
// free as soon as its codes are in registers, a panel's only when it has been
// multiplied, so that there may be fewer stages.
inline PrefillSmemLayout PrefillSmemLayoutOf(int codes, int tile_m,
                                             int stage_bytes) {
  PrefillSmemLayout plan;
  const int staged_bytes =
      TableHasRoom(codes)
          ? 0
          : kPrefillGroups * StagedRows(codes) * StagedRowStride(codes);
  const int barrier_bytes =
      (kMaxPrefillPanels + kMaxPrefillStages + 1) * kBarrierBytes;
  const int room =
      kMaxBlockBytes - TableBytes(codes) - staged_bytes - barrier_bytes;
  int best = 0;
  const int panel_bytes = PrefillPanelBytes(tile_m);
  for (int panels = kMinPrefillPanels; panels <= kMaxPrefillPanels; ++panels) {
    int stages = (room - panels * panel_bytes) / stage_bytes;
    if (stages < 2) break;
    if (stages > kMaxPrefillStages) stages = kMaxPrefillStages;
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
  plan.invitation_offset = plan.total - kBarrierBytes;
  return plan;
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_SMEM_LAYOUT_H_
