// SPDX-License-Identifier: Apache-2.0
//
// Parts that launches of one decode GEMM and of a group share: from operands to
// kernel parameters, threads and shared memory.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_DECODE_LAUNCH_CUH_
#define QGEMM_KERNELS_CUDA_LAUNCH_DECODE_LAUNCH_CUH_

#include <cuda_runtime_api.h>

#include <algorithm>

#include "base/host_device.h"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/launch/gemm_launch.cuh"
#include "kernels/cuda/launch/kernel_table.cuh"

namespace qgemm::cuda {

// Tiles of 8 rows of A that a kernel multiplies, as in DecodeFamily.
inline constexpr int kMTileCounts[kTileMChoices] = {1, 2, 4, 8};

static_assert(kMaxNTiles == kMaxGroups * kGroupWarps,
              "a warp multiplies one row tile");
static_assert(kMTileCounts[kTileMChoices - 1] * 8 == kDecodeBlockM,
              "the tallest kernel takes as many rows of A as a block");

// Beyond these a deeper ring measured no gain.
inline constexpr int kMaxSlots = 24;

inline int MTileChoice(int64_t m) {
  for (int choice = 0; choice < kTileMChoices; ++choice) {
    if (m <= kMTileCounts[choice] * 8) return choice;
  }
  return kTileMChoices - 1;
}

inline DecodeSmemShape SmemShapeOf(const TileLayout& layout, int tile_m) {
  const TileConfig& config = layout.tile_config;
  DecodeSmemShape shape;
  shape.codes = layout.codes;
  shape.tile_m = tile_m;
  shape.stage_bytes = static_cast<int>(layout.stage_bytes());
  shape.n_tiles = config.n_tiles;
  shape.split_k = config.split_k;
  shape.k_warps = config.k_warps;
  shape.block_bytes = layout.block_bytes;
  return shape;
}

// Slots of the ring for that many stages.
inline int SlotsFor(const DecodeSmemShape& shape, int stages) {
  return SlotsInRoom(std::min(kMaxSlots, SlotsThatFit(shape)), stages,
                     shape.k_warps);
}

// True if the decode kernel can take them.
inline bool IsLegal(const GemmOperands& operands) {
  return operands.m >= 1 && operands.m <= kMaxDecodeM &&
         operands.weights.layout.has_decode_kernel &&
         ActivationsAreLegal(operands);
}

// A GEMM's parameters, and what of its launch they take.
struct DecodeLaunch {
  GemmArguments args;
  unsigned blocks;
  int threads;
  int shared_bytes;
};

// `parts`: sums of as many parts of its work stand in shared memory.
inline cudaError_t SetUp(const Device& device, const GemmOperands& operands,
                         int tile_m, int parts, DecodeLaunch& launch) {
  const TileLayout& layout = operands.weights.layout;
  const TileConfig& config = layout.tile_config;
  launch.args = OperandArguments(operands);
  const int stages = static_cast<int>(CeilDiv(layout.k_tiles, config.split_k));
  DecodeSmemShape shape = SmemShapeOf(layout, tile_m);
  launch.args.slots = SlotsFor(shape, stages);
  launch.blocks = static_cast<unsigned>(config.n_blocks * config.split_k);
  launch.threads =
      (NGroups(config.n_tiles) * config.k_warps + 1) * kGroupWarps * 32;
  shape.k_warps *= parts;
  launch.shared_bytes = DecodeSmemLayoutOf(shape, launch.args.slots).total;
  return MapActivations(device, operands, tile_m, launch.args.a_map);
}

// Attributes of a launch that starts while the one before it runs.
class LaunchAttributes {
 public:
  explicit LaunchAttributes(int cluster, cudaLaunchConfig_t& launch) {
    attributes_[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes_[0].val.programmaticStreamSerializationAllowed = 1;
    attributes_[1].id = cudaLaunchAttributeClusterDimension;
    attributes_[1].val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
    launch.attrs = attributes_;
    launch.numAttrs = cluster > 1 ? 2 : 1;
  }
  LaunchAttributes(const LaunchAttributes&) = delete;
  LaunchAttributes& operator=(const LaunchAttributes&) = delete;

 private:
  cudaLaunchAttribute attributes_[2] = {};
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_DECODE_LAUNCH_CUH_
