// SPDX-License-Identifier: Apache-2.0
//
// The kernel of mode A32: the layers that it multiplies, and the shared memory
// of its blocks. Those share a layer out as the decode kernel does, so that one
// layer serves both.

#ifndef QGEMM_KERNELS_CUDA_PLAN_A32_PLAN_H_
#define QGEMM_KERNELS_CUDA_PLAN_A32_PLAN_H_

#include <cstdint>

#include "base/host_device.h"
#include "kernels/cuda/layout/a32_layout.h"
#include "kernels/cuda/layout/tile_layout.h"
#include "kernels/cuda/plan/smem_layout.h"

namespace qgemm::cuda {

// Rows of A of a launch, at most.
inline constexpr int64_t kMaxA32M = 1024;

// Slots beyond which a deeper ring measured no gain in the decode kernel.
inline constexpr int kMaxA32Slots = 24;

static_assert(ReceivesApart(kA32BlockM),
              "sums that a block receives have room of their own");

// Stages of layers without scales, which are ternary, whose products the tensor
// cores add up: 256 columns.
inline constexpr int kA32ChainStages = 2;

// Rows of a block that splits its part of a row itself, into shared memory
// beside the ring. Others get activations split, by stages.
inline constexpr int kA32OwnRow = 1;

struct A32SmemShape {
  int tile_m = kA32FewRows;  // or kA32OwnRow
  int stage_bytes = 0;       // of weights
  int stages = 0;            // of a block
  int n_tiles = 1;
  int split_k = 1;
  int k_warps = 1;
};

QGEMM_HOST_DEVICE constexpr DecodeSmemShape SumsShapeOf(
    const A32SmemShape& shape) {
  DecodeSmemShape sums;
  sums.tile_m = shape.tile_m;
  sums.n_tiles = shape.n_tiles;
  sums.split_k = shape.split_k;
  sums.k_warps = shape.k_warps;
  return sums;
}

// Bytes of activations beside the ring, with a stage of zeros at the end, and
// in each of its slots.
QGEMM_HOST_DEVICE constexpr int OwnActivationBytes(const A32SmemShape& shape) {
  return shape.tile_m == kA32OwnRow
             ? (shape.stages + 1) * A32StageBytes(kA32OwnRow)
             : 0;
}
QGEMM_HOST_DEVICE constexpr int StageActivationBytes(
    const A32SmemShape& shape) {
  return shape.tile_m == kA32OwnRow ? 0 : A32StageBytes(shape.tile_m);
}

// The ring, and in its place later the sums; barriers; received sums.
QGEMM_HOST_DEVICE constexpr DecodeSmemLayout A32SmemLayoutOf(
    const A32SmemShape& shape, int slots) {
  const DecodeSmemShape sums = SumsShapeOf(shape);
  DecodeSmemLayout plan{};
  plan.activations = 0;
  plan.weights =
      OwnActivationBytes(shape) + slots * StageActivationBytes(shape);
  plan.barriers = plan.weights + slots * shape.stage_bytes;
  if (plan.barriers < SumBytes(sums)) plan.barriers = SumBytes(sums);
  plan.received = plan.barriers + (slots + 1) * kBarrierBytes;
  plan.total = plan.received + ReceivedBytes(sums);
  return plan;
}

// Place of the zeros of a block that splits its row: before the ring.
QGEMM_HOST_DEVICE constexpr int A32ZerosOffset(const DecodeSmemLayout& smem) {
  return smem.weights - A32StageBytes(kA32OwnRow);
}

// Slots of the ring, up to `most`; below 1 where there is no room. Of one or
// two rows of A warps take two stages at a time, which stand in one round of
// the ring.
inline int A32Slots(const A32SmemShape& shape, int block_bytes, int most) {
  const int slot_bytes =
      StageActivationBytes(shape) + shape.stage_bytes + kBarrierBytes;
  const int beside = OwnActivationBytes(shape) +
                     ReceivedBytes(SumsShapeOf(shape)) + kBarrierBytes;
  const int fitting = (block_bytes - beside) / slot_bytes;
  const int turns =
      shape.tile_m <= kA32FewRows ? 2 * shape.k_warps : shape.k_warps;
  return SlotsInRoom(fitting < most ? fitting : most, shape.stages, turns);
}

inline A32SmemShape A32ShapeOf(const TileLayout& layout, int tile_m) {
  const TileConfig& config = layout.tile_config;
  A32SmemShape shape;
  shape.tile_m = tile_m;
  shape.stage_bytes = static_cast<int>(layout.stage_bytes());
  shape.stages = static_cast<int>(CeilDiv(layout.k_tiles, config.split_k));
  shape.n_tiles = config.n_tiles;
  shape.split_k = config.split_k;
  shape.k_warps = config.k_warps;
  return shape;
}

// Eights of columns of a row that a thread splits, at most: of layers of 4
// bits, and of others. On an H200 8192x28672 in Q4_0 takes 38.4 us with two a
// thread and 40.2 with a kernel before, which weights come beside; in ternary,
// whose blocks wait for instructions, 27.5 and 25.8.
inline constexpr int kMaxA32Octets = 2;
inline constexpr int kMaxTernaryOctets = 1;

// True if each block splits its part of A itself, where columns are in their
// order: of one row of whole stages, and no more of it than its threads load at
// once.
inline bool BlocksSplit(const TileLayout& layout, int64_t m) {
  const A32SmemShape shape = A32ShapeOf(layout, kA32OwnRow);
  const int octets = shape.stages * (kTileColumns / 8);
  const int threads = shape.n_tiles * shape.k_warps * 32;
  const int of_thread =
      layout.codes == kTernaryCodes ? kMaxTernaryOctets : kMaxA32Octets;
  return m == 1 && layout.k % kTileColumns == 0 &&
         octets <= of_thread * threads &&
         A32Slots(shape, layout.block_bytes, kMaxA32Slots) >= 1;
}

// True for ternary codes, and for codes of 4 bits whose scales are not E4M4,
// where a block's stages fit. That the codebook is whole numbers, -8 to 7 or
// with zeros 0 to 15, is for the caller to know.
inline bool OffersA32(const TileLayout& layout) {
  const bool codes =
      layout.codes == kTernaryCodes ||
      (layout.bits == 4 && layout.scale_kind != ScaleKind::kE4m4);
  const auto has_slots = [&](int tile_m) {
    return A32Slots(A32ShapeOf(layout, tile_m), layout.block_bytes,
                    kMaxA32Slots) >= 1;
  };
  return layout.has_decode_kernel && codes && has_slots(kA32FewRows) &&
         has_slots(kA32BlockM);
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_A32_PLAN_H_
