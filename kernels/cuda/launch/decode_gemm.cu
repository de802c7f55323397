// SPDX-License-Identifier: Apache-2.0
//
// From operands to a decode kernel of the table and its launch attributes.

#include <algorithm>

#include "base/host_device.h"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/launch/gemm_launch.cuh"
#include "kernels/cuda/launch/kernel_table.cuh"

namespace qgemm::cuda {
namespace {

// Tiles of 8 rows of A that a kernel multiplies, as in DecodeFamily.
constexpr int kMTileCounts[kTileMChoices] = {1, 2, 4, 8};

static_assert(kMaxNTiles == kMaxGroups * kGroupWarps,
              "a warp multiplies one row tile");
static_assert(kMTileCounts[kTileMChoices - 1] * 8 == kDecodeBlockM,
              "the tallest kernel takes as many rows of A as a block");

// Beyond these a deeper ring measured no gain.
constexpr int kMaxSlots = 24;

const KernelTable<DecodeKernel>& TableOf(int codes) {
  using Table = const KernelTable<DecodeKernel>& (*)();
  constexpr Table kTables[] = {DecodeKernels<kTernaryCodes>, DecodeKernels<2>,
                               DecodeKernels<3>, DecodeKernels<4>,
                               DecodeKernels<5>};
  return kTables[codes - kTernaryCodes]();
}

int MTileChoice(int64_t m) {
  for (int choice = 0; choice < kTileMChoices; ++choice) {
    if (m <= kMTileCounts[choice] * 8) return choice;
  }
  return kTileMChoices - 1;
}

DecodeSmemShape SmemShapeOf(const TileLayout& layout, int tile_m) {
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

// Slots of the ring for that many stages. Where slots are used again, warps
// that alternate along K keep to slots of their own, so that none waits for a
// phase that lies two ahead.
int SlotsFor(const DecodeSmemShape& shape, int stages) {
  const int room = std::min(kMaxSlots, SlotsThatFit(shape));
  return stages <= room ? stages : room / shape.k_warps * shape.k_warps;
}

bool IsLegal(const GemmOperands& operands) {
  return operands.m >= 1 && operands.m <= kMaxDecodeM &&
         operands.weights.layout.has_decode_kernel &&
         ActivationsAreLegal(operands);
}

}  // namespace

cudaError_t PrepareDecodeGemm(const Device& device) {
  const int bytes = static_cast<int>(
      std::min<int64_t>(device.traits.shared_bytes_per_block, kMaxBlockBytes));
  for (const int codes : kCodeKinds) {
    const cudaError_t error = TableOf(codes).AllowSharedMemory(bytes);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t LaunchDecodeGemm(const Device& device, const GemmOperands& operands,
                             cudaStream_t stream) {
  if (!IsLegal(operands)) return cudaErrorInvalidValue;
  const TileLayout& layout = operands.weights.layout;
  const int choice = MTileChoice(operands.m);
  const DecodeKernel kernel =
      TableOf(layout.codes).Find(layout, operands.a_type, choice);
  if (kernel == nullptr) return cudaErrorInvalidValue;
  GemmArguments args = OperandArguments(operands);
  const TileConfig& config = layout.tile_config;
  const int tile_m = kMTileCounts[choice] * 8;
  const int stages = static_cast<int>(CeilDiv(layout.k_tiles, config.split_k));
  const DecodeSmemShape shape = SmemShapeOf(layout, tile_m);
  args.slots = SlotsFor(shape, stages);
  const cudaError_t mapped =
      MapActivations(device, operands, tile_m, args.a_map);
  if (mapped != cudaSuccess) return mapped;

  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(config.n_blocks * config.split_k,
                        CeilDiv(operands.m, kDecodeBlockM));
  launch.blockDim =
      dim3((NGroups(config.n_tiles) * config.k_warps + 1) * kGroupWarps * 32);
  launch.dynamicSmemBytes = DecodeSmemLayoutOf(shape, args.slots).total;
  launch.stream = stream;
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(config.split_k), 1, 1};
  launch.attrs = attributes;
  launch.numAttrs = config.split_k > 1 ? 2 : 1;
  return cudaLaunchKernelEx(&launch, kernel, args);
}

}  // namespace qgemm::cuda
