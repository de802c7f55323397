// SPDX-License-Identifier: Apache-2.0
//
// The kernels of mode A8 for few rows, from operands to one of them, and the
// choice between them and those for many.

#include <algorithm>

#include "base/host_device.h"
#include "kernels/cuda/device/w4a8_gemm/kernel.cuh"
#include "kernels/cuda/launch/decode_launch.cuh"
#include "kernels/cuda/launch/gemm_launch.cuh"
#include "kernels/cuda/launch/quantize_rows.h"
#include "kernels/cuda/launch/w4a8_gemm.h"
#include "kernels/cuda/launch/w4a8_prefill.h"
#include "kernels/cuda/layout/q8_layout.h"
#include "kernels/cuda/plan/w4a8_plan.h"
#include "kernels/cuda/plan/w4a8_prefill_plan.h"

namespace qgemm::cuda {
namespace {

using W4A8Kernel = void (*)(W4A8Arguments);

// By rows of A of a block: 8, 16, 32 and 64.
constexpr W4A8Kernel kKernels[] = {W4A8Gemm<1, 1, false>, W4A8Gemm<2, 1, false>,
                                   W4A8Gemm<4, 1, false>,
                                   W4A8Gemm<8, 1, false>};
// Two row tiles a warp, for 32 and 64 rows of A.
constexpr W4A8Kernel kTwoRowTiles[] = {W4A8Gemm<4, 2, false>,
                                       W4A8Gemm<8, 2, false>};
// For one row, which blocks quantize themselves.
constexpr W4A8Kernel kQuantizing = W4A8Gemm<1, 1, true>;

W4A8Kernel KernelOf(const W4A8SmemShape& shape) {
  if (shape.quantizes) return kQuantizing;
  if (W4A8RowTiles(shape) == 2) return kTwoRowTiles[shape.tile_m / 64];
  int choice = 0;
  while (kQ8TileRows << choice < shape.tile_m) ++choice;
  return kKernels[choice];
}

// Allows all of them `bytes` of shared memory.
cudaError_t AllowSharedMemory(int bytes) {
  const auto allow = [bytes](W4A8Kernel kernel) {
    return cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  cudaError_t error = allow(kQuantizing);
  for (const W4A8Kernel kernel : kKernels) {
    if (error == cudaSuccess) error = allow(kernel);
  }
  for (const W4A8Kernel kernel : kTwoRowTiles) {
    if (error == cudaSuccess) error = allow(kernel);
  }
  return error;
}

bool IsLegal(const W4A8Operands& operands) {
  return operands.m >= 1 && operands.m <= kMaxW4A8M &&
         OffersW4A8(operands.weights.layout) &&
         reinterpret_cast<uintptr_t>(operands.a) % 8 == 0 &&
         reinterpret_cast<uintptr_t>(operands.quantized) % 16 == 0;
}

W4A8Arguments ArgumentsOf(const W4A8Operands& operands, bool quantizes) {
  GemmOperands same;
  same.weights = operands.weights;
  same.a = quantizes ? operands.a : operands.quantized;
  same.c = operands.c;
  same.c_type = operands.c_type;
  same.m = operands.m;
  W4A8Arguments args = {OperandArguments(same), operands.a_type};
  // Dots have codes, not values of the codebook.
  args.gemm.factor *= operands.weights.zero_unit / kW4A8Unit;
  return args;
}

cudaError_t QuantizeAll(const W4A8Operands& operands, cudaStream_t stream) {
  QuantizeRowsArgs args;
  args.a = operands.a;
  args.a_type = operands.a_type;
  args.m = operands.m;
  args.k = operands.weights.layout.k;
  args.out = operands.quantized;
  return LaunchQuantizeRows(args, stream);
}

cudaError_t LaunchFewRows(const W4A8Operands& operands, cudaStream_t stream) {
  if (!IsLegal(operands)) return cudaErrorInvalidValue;
  const TileLayout& layout = operands.weights.layout;
  const TileConfig& config = layout.tile_config;
  W4A8SmemShape shape = W4A8ShapeOf(layout, Q8TileM(operands.m));
  shape.quantizes = BlocksQuantize(layout, operands.m);
  if (!shape.quantizes) {
    const cudaError_t error = QuantizeAll(operands, stream);
    if (error != cudaSuccess) return error;
  }
  W4A8Arguments args = ArgumentsOf(operands, shape.quantizes);
  args.gemm.slots = W4A8Slots(shape, layout.block_bytes, kMaxW4A8Slots);
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(static_cast<unsigned>(config.n_blocks * config.split_k),
                        CeilDiv(operands.m, kDecodeBlockM));
  launch.blockDim =
      dim3((config.n_tiles / W4A8RowTiles(shape) * config.k_warps +
            kW4A8ProducerWarps) *
           32);
  launch.dynamicSmemBytes = W4A8SmemLayoutOf(shape, args.gemm.slots).total;
  launch.stream = stream;
  const LaunchAttributes attributes(config.split_k, launch);
  return cudaLaunchKernelEx(&launch, KernelOf(shape), args);
}

}  // namespace

cudaError_t PrepareW4A8Gemm(const Device& device) {
  const int bytes = static_cast<int>(
      std::min<int64_t>(device.traits.shared_bytes_per_block, kMaxBlockBytes));
  const cudaError_t error = AllowSharedMemory(bytes);
  if (error != cudaSuccess) return error;
  return PrepareW4A8Prefill(device);
}

cudaError_t LaunchW4A8Gemm(const Device& device, const W4A8Operands& operands,
                           cudaStream_t stream, int kernel) {
  if (kernel == kBestW4A8Kernel) {
    kernel =
        W4A8PrefillTileM(operands.weights.layout, operands.m, device.traits);
  }
  return kernel == kFewRowsW4A8Kernel
             ? LaunchFewRows(operands, stream)
             : LaunchW4A8Prefill(device, operands, stream, kernel);
}

}  // namespace qgemm::cuda
