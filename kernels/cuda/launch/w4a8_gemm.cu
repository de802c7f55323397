// SPDX-License-Identifier: Apache-2.0
//
// The kernels of mode A8, and from operands to one of them.

#include <algorithm>

#include "base/host_device.h"
#include "kernels/cuda/device/w4a8_gemm/kernel.cuh"
#include "kernels/cuda/launch/decode_launch.cuh"
#include "kernels/cuda/launch/gemm_launch.cuh"
#include "kernels/cuda/launch/w4a8_gemm.h"
#include "kernels/cuda/layout/q8_layout.h"
#include "kernels/cuda/plan/w4a8_plan.h"

namespace qgemm::cuda {
namespace {

using W4A8Kernel = void (*)(GemmArguments);

// By rows of A of a block: 8, 16, 32 and 64.
constexpr W4A8Kernel kKernels[] = {W4A8Gemm<1>, W4A8Gemm<2>, W4A8Gemm<4>,
                                   W4A8Gemm<8>};

W4A8Kernel KernelOf(int tile_m) {
  int choice = 0;
  while (kQ8TileRows << choice < tile_m) ++choice;
  return kKernels[choice];
}

bool IsLegal(const W4A8Operands& operands) {
  return operands.m >= 1 && operands.m <= kMaxW4A8M &&
         OffersW4A8(operands.weights.layout) &&
         reinterpret_cast<uintptr_t>(operands.a) % 16 == 0;
}

GemmArguments ArgumentsOf(const W4A8Operands& operands) {
  GemmOperands same;
  same.weights = operands.weights;
  same.a = operands.a;
  same.c = operands.c;
  same.c_type = operands.c_type;
  same.m = operands.m;
  GemmArguments args = OperandArguments(same);
  // Dots have codes, not values of the codebook.
  args.factor *= operands.weights.zero_unit / kW4A8Unit;
  return args;
}

}  // namespace

cudaError_t PrepareW4A8Gemm(const Device& device) {
  const int bytes = static_cast<int>(
      std::min<int64_t>(device.traits.shared_bytes_per_block, kMaxBlockBytes));
  for (const W4A8Kernel kernel : kKernels) {
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t LaunchW4A8Gemm(const W4A8Operands& operands, cudaStream_t stream) {
  if (!IsLegal(operands)) return cudaErrorInvalidValue;
  const TileLayout& layout = operands.weights.layout;
  const TileConfig& config = layout.tile_config;
  const int tile_m = Q8TileM(operands.m);
  const W4A8SmemShape shape = W4A8ShapeOf(layout, tile_m);
  GemmArguments args = ArgumentsOf(operands);
  args.slots = W4A8Slots(shape, layout.block_bytes, kMaxW4A8Slots);
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(static_cast<unsigned>(config.n_blocks * config.split_k),
                        CeilDiv(operands.m, kDecodeBlockM));
  launch.blockDim =
      dim3((config.n_tiles * config.k_warps + kW4A8ProducerWarps) * 32);
  launch.dynamicSmemBytes = W4A8SmemLayoutOf(shape, args.slots).total;
  launch.stream = stream;
  const LaunchAttributes attributes(config.split_k, launch);
  return cudaLaunchKernelEx(&launch, KernelOf(tile_m), args);
}

}  // namespace qgemm::cuda
