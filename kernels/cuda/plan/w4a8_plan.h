// SPDX-License-Identifier: Apache-2.0
//
// The kernel of mode A8 for few rows: the layers that it multiplies, and the
// shared memory of its blocks. Those share a layer out as the decode kernel
// does, so that one layer serves both.

#ifndef QGEMM_KERNELS_CUDA_PLAN_W4A8_PLAN_H_
#define QGEMM_KERNELS_CUDA_PLAN_W4A8_PLAN_H_

#include <cstdint>

#include "base/host_device.h"
#include "kernels/cuda/layout/q8_layout.h"
#include "kernels/cuda/layout/tile_layout.h"
#include "kernels/cuda/plan/smem_layout.h"

namespace qgemm::cuda {

// Rows of A of a launch, at most.
inline constexpr int64_t kMaxW4A8M = 1024;

// Operands are 16 (q - 8): so is a code q in the upper half of a byte whose top
// bit is flipped.
inline constexpr float kW4A8Unit = 16;

// The bits of 1.5 * 2^23, whose last place is 1: a dot of a block added to them
// is that float plus the dot, exactly, so that no conversion is needed. A scale
// of 11 bits times that float is exact too.
inline constexpr int32_t kDotBias = 0x4b400000;
inline constexpr float kDotBiasValue = 12582912;
inline constexpr int kMaxDot = 16 * 8 * 127 * kQ8Block;
static_assert(kMaxDot < 1 << 22,
              "a dot of either sign leaves the exponent of the bias alone");

// Stages of a warp that are added to one fp32 sum: 1024 blocks of 32 columns.
inline constexpr int kW4A8ChainStages = 256;

struct W4A8SmemShape {
  int tile_m = kQ8TileRows;
  int stage_bytes = 0;
  int stages = 0;  // of a block
  int n_tiles = 1;
  int split_k = 1;
  int k_warps = 1;
  // The block quantizes its part of one row of A, which stands beside the ring.
  // If not, activations come quantized, by stages.
  bool quantizes = false;
};

// Row tiles of W of a warp. Two share the loads of activations, which of 32 and
// 64 rows take most of what shared memory gives, where an SM's four schedulers
// then have two warps each and none more work than before. By counts of
// instructions 450 and 756 for two tiles' stage, not 500 and 830, and half of
// the loads. Not measured.
QGEMM_HOST_DEVICE constexpr int W4A8RowTiles(const W4A8SmemShape& shape) {
  return shape.tile_m >= 32 && shape.n_tiles % 2 == 0 &&
                 shape.n_tiles * shape.k_warps > 12
             ? 2
             : 1;
}

// Bytes of activations beside the ring, and in each of its slots.
QGEMM_HOST_DEVICE constexpr int OwnActivationBytes(const W4A8SmemShape& shape) {
  return shape.quantizes ? shape.stages * Q8TileBytes(1) : 0;
}
QGEMM_HOST_DEVICE constexpr int StageActivationBytes(
    const W4A8SmemShape& shape) {
  return shape.quantizes ? 0 : shape.tile_m * kQ8RowBytes;
}

// True if a warp has more than one chain; sums of ended chains then have room
// of their own.
QGEMM_HOST_DEVICE constexpr bool HasLongChains(const W4A8SmemShape& shape) {
  return shape.stages > kW4A8ChainStages * shape.k_warps;
}

QGEMM_HOST_DEVICE constexpr DecodeSmemShape SumsShapeOf(
    const W4A8SmemShape& shape) {
  DecodeSmemShape sums;
  sums.tile_m = shape.tile_m;
  sums.n_tiles = shape.n_tiles;
  sums.split_k = shape.split_k;
  sums.k_warps = shape.k_warps;
  return sums;
}

// Sums at offset 0; the ring stands there before, or behind them.
QGEMM_HOST_DEVICE constexpr DecodeSmemLayout W4A8SmemLayoutOf(
    const W4A8SmemShape& shape, int slots) {
  const DecodeSmemShape sums = SumsShapeOf(shape);
  const bool apart = ReceivesApart(shape.tile_m);
  const int sums_end = SumBytes(sums) + (apart ? 0 : ReceivedBytes(sums));
  DecodeSmemLayout plan{};
  plan.activations = HasLongChains(shape) ? SumBytes(sums) : 0;
  plan.weights = plan.activations + OwnActivationBytes(shape) +
                 slots * StageActivationBytes(shape);
  plan.barriers = plan.weights + slots * shape.stage_bytes;
  if (plan.barriers < sums_end) plan.barriers = sums_end;
  const int barriers_end = plan.barriers + (slots + 1) * kBarrierBytes;
  plan.received = apart ? barriers_end : SumBytes(sums);
  plan.total = barriers_end + (apart ? ReceivedBytes(sums) : 0);
  return plan;
}

// Slots of the ring, up to `most`; below 1 where there is no room.
inline int W4A8Slots(const W4A8SmemShape& shape, int block_bytes, int most) {
  const DecodeSmemShape sums = SumsShapeOf(shape);
  const int apart = ReceivesApart(shape.tile_m) ? ReceivedBytes(sums) : 0;
  const int before =
      (HasLongChains(shape) ? SumBytes(sums) : 0) + OwnActivationBytes(shape);
  const int slot_bytes =
      StageActivationBytes(shape) + shape.stage_bytes + kBarrierBytes;
  const int fitting =
      (block_bytes - before - apart - kBarrierBytes) / slot_bytes;
  return SlotsInRoom(fitting < most ? fitting : most, shape.stages,
                     shape.k_warps);
}

inline W4A8SmemShape W4A8ShapeOf(const TileLayout& layout, int tile_m) {
  const TileConfig& config = layout.tile_config;
  W4A8SmemShape shape;
  shape.tile_m = tile_m;
  shape.stage_bytes = static_cast<int>(layout.stage_bytes());
  shape.stages = static_cast<int>(CeilDiv(layout.k_tiles, config.split_k));
  shape.n_tiles = config.n_tiles;
  shape.split_k = config.split_k;
  shape.k_warps = config.k_warps;
  return shape;
}

// True if each block quantizes its part of A itself: of one row, and no more of
// it than a thread has at once. On an H200 4096x4096 takes 6.7 us so and 7.7
// with a kernel before; 8192x28672, of which threads have two parts, 35.5
// and 34.7.
inline bool BlocksQuantize(const TileLayout& layout, int64_t m) {
  const W4A8SmemShape shape = W4A8ShapeOf(layout, kQ8TileRows);
  return m == 1 && shape.stages * kQ8TileBlocks * kQ8Lanes <=
                       shape.n_tiles * shape.k_warps * 32;
}

// Slots beyond which a deeper ring measured no gain in the decode kernel.
inline constexpr int kMaxW4A8Slots = 24;

// True for codes of 4 bits with fp16 scales a block of 32, or one a row, whose
// stages fit: of a very long K and a small block of threads they may not.
inline bool OffersW4A8(const TileLayout& layout) {
  const bool scales =
      layout.scale_kind == ScaleKind::kRow ||
      (layout.scale_kind == ScaleKind::kFloat16 && layout.groups == 4);
  return layout.has_decode_kernel && layout.codes == 4 && !layout.has_zeros &&
         scales &&
         W4A8Slots(W4A8ShapeOf(layout, kDecodeBlockM), layout.block_bytes,
                   kMaxW4A8Slots) >= 1;
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_W4A8_PLAN_H_
