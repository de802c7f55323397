// SPDX-License-Identifier: Apache-2.0
//
// The kernels of mode A32, and from operands to one of them.

#include <algorithm>

#include "base/host_device.h"
#include "kernels/cuda/device/a32_gemm/kernel.cuh"
#include "kernels/cuda/launch/a32_gemm.h"
#include "kernels/cuda/launch/decode_launch.cuh"
#include "kernels/cuda/launch/gemm_launch.cuh"
#include "kernels/cuda/launch/split_rows.h"
#include "kernels/cuda/layout/a32_layout.h"
#include "kernels/cuda/plan/a32_plan.h"

namespace qgemm::cuda {
namespace {

using A32Kernel = void (*)(A32Arguments);

// Rows of A of a block.
constexpr int kTileMs[] = {kA32OwnRow, kA32FewRows, 8, 16, kA32BlockM};

template <int kCodes, ScaleKind kScale>
A32Kernel KernelOf(int tile_m) {
  constexpr A32Kernel kKernels[] = {
      A32Gemm<kCodes, kScale, kTileMs[0]>, A32Gemm<kCodes, kScale, kTileMs[1]>,
      A32Gemm<kCodes, kScale, kTileMs[2]>, A32Gemm<kCodes, kScale, kTileMs[3]>,
      A32Gemm<kCodes, kScale, kTileMs[4]>,
  };
  return kKernels[std::find(std::begin(kTileMs), std::end(kTileMs), tile_m) -
                  std::begin(kTileMs)];
}

// By kind of layer: ternary; of 4 bits by the kind of scales that change
// within 128 columns, last where none do; the same with zeros.
using Choice = A32Kernel (*)(int tile_m);
constexpr Choice kChoices[] = {KernelOf<kTernaryCodes, ScaleKind::kRow>,
                               KernelOf<4, ScaleKind::kFloat16>,
                               KernelOf<4, ScaleKind::kBFloat16>,
                               KernelOf<4, ScaleKind::kFloat32>,
                               KernelOf<4, ScaleKind::kRow>,
                               KernelOf<kNumberCodes, ScaleKind::kFloat16>,
                               KernelOf<kNumberCodes, ScaleKind::kBFloat16>,
                               KernelOf<kNumberCodes, ScaleKind::kFloat32>,
                               KernelOf<kNumberCodes, ScaleKind::kRow>};

// For layers that are offered.
A32Kernel KernelOf(const TileLayout& layout, int tile_m) {
  if (layout.codes == kTernaryCodes) return kChoices[0](tile_m);
  int choice = 4;
  if (layout.groups > 1) {
    choice = layout.scale_kind == ScaleKind::kFloat16    ? 1
             : layout.scale_kind == ScaleKind::kBFloat16 ? 2
                                                         : 3;
  }
  if (layout.codes == kNumberCodes) choice += 4;
  return kChoices[choice](tile_m);
}

bool IsLegal(const A32Operands& operands) {
  return operands.m >= 1 && operands.m <= kMaxA32M &&
         OffersA32(operands.weights.layout) &&
         reinterpret_cast<uintptr_t>(operands.split) % 16 == 0;
}

A32Arguments ArgumentsOf(const A32Operands& operands, bool blocks_split) {
  const TileLayout& layout = operands.weights.layout;
  GemmOperands same;
  same.weights = operands.weights;
  same.a = blocks_split ? operands.a : operands.split;
  same.c = operands.c;
  same.c_type = operands.c_type;
  same.m = operands.m;
  A32Arguments args = {};
  args.gemm = OperandArguments(same);
  args.scale_kind = layout.scale_kind;
  args.a_type = operands.a_type;
  // Products have numbers, not values of the codebook; the factors of other
  // codes say so already.
  if (layout.codes == 4) {
    args.gemm.factor *= operands.weights.zero_unit;
  }
  return args;
}

cudaError_t SplitAll(const A32Operands& operands, cudaStream_t stream) {
  const TiledWeights& weights = operands.weights;
  SplitRowsArgs args;
  args.a = operands.a;
  args.a_type = operands.a_type;
  args.m = operands.m;
  args.k = weights.layout.k;
  if (weights.has_permutation) args.permutation = weights.permutation();
  args.pairs = A32PairsOf(weights.layout.codes);
  args.out = operands.split;
  return LaunchSplitRows(args, stream);
}

}  // namespace

cudaError_t PrepareA32Gemm(const Device& device) {
  const int bytes = static_cast<int>(
      std::min<int64_t>(device.traits.shared_bytes_per_block, kMaxBlockBytes));
  for (const Choice choice : kChoices) {
    for (const int tile_m : kTileMs) {
      const cudaError_t error = cudaFuncSetAttribute(
          choice(tile_m), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchA32Gemm(const A32Operands& operands, cudaStream_t stream) {
  if (!IsLegal(operands)) return cudaErrorInvalidValue;
  const TileLayout& layout = operands.weights.layout;
  const TileConfig& config = layout.tile_config;
  const bool blocks_split =
      !operands.weights.has_permutation && BlocksSplit(layout, operands.m);
  if (!blocks_split) {
    const cudaError_t error = SplitAll(operands, stream);
    if (error != cudaSuccess) return error;
  }
  const int tile_m = blocks_split ? kA32OwnRow : A32TileM(operands.m);
  const A32SmemShape shape = A32ShapeOf(layout, tile_m);
  A32Arguments args = ArgumentsOf(operands, blocks_split);
  args.gemm.slots = A32Slots(shape, layout.block_bytes, kMaxA32Slots);
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(static_cast<unsigned>(config.n_blocks * config.split_k),
                        CeilDiv(operands.m, kA32BlockM));
  const bool wide = A32FormOf(tile_m) == A32Form::kPanels;
  launch.blockDim =
      dim3((A32ConsumerWarps(config, wide) + A32ProducerWarps(wide)) * 32);
  launch.dynamicSmemBytes = A32SmemLayoutOf(shape, args.gemm.slots).total;
  launch.stream = stream;
  const LaunchAttributes attributes(config.split_k, launch);
  return cudaLaunchKernelEx(&launch, KernelOf(layout, tile_m), args);
}

}  // namespace qgemm::cuda
