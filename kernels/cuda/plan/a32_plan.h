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

struct A32SmemShape {
  int tile_m = kA32FewRows;
  int stage_bytes = 0;  // of weights
  int stages = 0;       // of a block
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

// The ring, and in its place later the sums; barriers; received sums.
QGEMM_HOST_DEVICE constexpr DecodeSmemLayout A32SmemLayoutOf(
    const A32SmemShape& shape, int slots) {
  const DecodeSmemShape sums = SumsShapeOf(shape);
  DecodeSmemLayout plan{};
  plan.activations = 0;
  plan.weights = slots * A32StageBytes(shape.tile_m);
  plan.barriers = plan.weights + slots * shape.stage_bytes;
  if (plan.barriers < SumBytes(sums)) plan.barriers = SumBytes(sums);
  plan.received = plan.barriers + (slots + 1) * kBarrierBytes;
  plan.total = plan.received + ReceivedBytes(sums);
  return plan;
}

// Slots of the ring, up to `most`; below 1 where there is no room.
inline int A32Slots(const A32SmemShape& shape, int block_bytes, int most) {
  const int slot_bytes =
      A32StageBytes(shape.tile_m) + shape.stage_bytes + kBarrierBytes;
  const int fitting =
      (block_bytes - ReceivedBytes(SumsShapeOf(shape)) - kBarrierBytes) /
      slot_bytes;
  return SlotsInRoom(fitting < most ? fitting : most, shape.stages,
                     shape.k_warps);
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

// True for ternary codes, and for codes of 4 bits whose scales are not E4M4,
// where a block's stages fit. That the codebook is whole numbers, -8 to 7 or
// with zeros 0 to 15, is for the caller to know.
inline bool OffersA32(const TileLayout& layout) {
  const bool codes =
      layout.codes == kTernaryCodes ||
      (layout.codes == 4 && layout.scale_kind != ScaleKind::kE4m4);
  return layout.has_decode_kernel && codes &&
         A32Slots(A32ShapeOf(layout, kA32BlockM), layout.block_bytes,
                  kMaxA32Slots) >= 1;
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_A32_PLAN_H_
