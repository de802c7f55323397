// SPDX-License-Identifier: Apache-2.0
//
// The kernels of mode A8 for many rows, and from operands to one of them.

#include <algorithm>

#include "kernels/cuda/device/w4a8_prefill/kernel.cuh"
#include "kernels/cuda/launch/decode_launch.cuh"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/launch/gemm_launch.cuh"
#include "kernels/cuda/launch/quantize_rows.h"
#include "kernels/cuda/launch/w4a8_prefill.h"
#include "kernels/cuda/layout/q8_layout.h"
#include "kernels/cuda/plan/w4a8_prefill_plan.h"

namespace qgemm::cuda {
namespace {

static_assert(kHandedWords <= kMaxQuantizeRowsWords,
              "quantization clears the words");

using W4A8PrefillKernel = void (*)(W4A8PrefillArguments);

// Null if there is none.
W4A8PrefillKernel KernelOf(int tile_m) {
  static_assert(kW4A8PrefillTileMs[0] == 64 && kW4A8PrefillTileMs[1] == 128,
                "a kernel for each height of tiles");
  return tile_m == 64    ? W4A8Prefill<64>
         : tile_m == 128 ? W4A8Prefill<128>
                         : nullptr;
}

bool IsLegal(const Device& device, const W4A8Operands& operands, int tile_m) {
  return operands.m >= 1 && operands.m <= kMaxW4A8M &&
         KernelOf(tile_m) != nullptr &&
         OffersW4A8Prefill(operands.weights.layout, device.traits, tile_m) &&
         device.encode_tensor_map != nullptr &&
         reinterpret_cast<uintptr_t>(operands.a) % 8 == 0 &&
         reinterpret_cast<uintptr_t>(operands.quantized) % 16 == 0 &&
         reinterpret_cast<uintptr_t>(operands.handed) % 16 == 0;
}

// Operands whose activations are the integers in fp16.
GemmOperands IntegerOperands(const W4A8Operands& operands,
                             const Q8PanelLayout& quantized) {
  GemmOperands integers;
  integers.weights = operands.weights;
  integers.a = operands.quantized + quantized.integers_offset();
  integers.lda = quantized.k;
  integers.a_type = FloatType::kFloat16;
  integers.c = operands.c;
  integers.c_type = operands.c_type;
  integers.m = operands.m;
  return integers;
}

W4A8PrefillArguments ArgumentsOf(const W4A8Operands& operands,
                                 const GemmOperands& integers, int tile_m) {
  const TileLayout& layout = operands.weights.layout;
  W4A8PrefillArguments args = {};
  args.prefill = TileArguments(integers, tile_m);
  args.prefill.gemm.factor *= operands.weights.zero_unit / kW4A8Unit;
  args.smem = W4A8PrefillSmemLayoutOf(tile_m, W4A8KOrderOf(layout).kept());
  args.prefill.smem = args.smem.rings;
  args.scales = operands.quantized;
  args.scale_rows =
      static_cast<int>(Q8PanelLayoutOf(operands.m, layout.k).scale_rows());
  return args;
}

cudaError_t QuantizeAll(const W4A8Operands& operands, bool shares,
                        cudaStream_t stream) {
  QuantizeRowsArgs args;
  args.a = operands.a;
  args.a_type = operands.a_type;
  args.m = operands.m;
  args.k = operands.weights.layout.k;
  args.out = operands.quantized;
  args.order = Q8Order::kPanels;
  if (shares) {
    args.words = reinterpret_cast<unsigned*>(operands.handed);
    args.word_count = kHandedWords;
  }
  return LaunchQuantizeRows(args, stream);
}

}  // namespace

cudaError_t PrepareW4A8Prefill(const Device& device) {
  if (!RunsPrefill(device.traits)) return cudaSuccess;
  for (const int tile_m : kW4A8PrefillTileMs) {
    const cudaError_t error = cudaFuncSetAttribute(
        KernelOf(tile_m), cudaFuncAttributeMaxDynamicSharedMemorySize,
        kMaxBlockBytes);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t LaunchW4A8Prefill(const Device& device,
                              const W4A8Operands& operands, cudaStream_t stream,
                              int tile_m) {
  if (!IsLegal(device, operands, tile_m)) return cudaErrorInvalidValue;
  const Q8PanelLayout quantized =
      Q8PanelLayoutOf(operands.m, operands.weights.layout.k);
  const GemmOperands integers = IntegerOperands(operands, quantized);
  W4A8PrefillArguments args = ArgumentsOf(operands, integers, tile_m);
  const cudaError_t mapped =
      MapActivations(device, integers, tile_m, args.prefill.gemm.a_map);
  if (mapped != cudaSuccess) return mapped;
  args.handed = operands.handed;
  args.shares = operands.handed != nullptr &&
                SharesW4A8Tiles(operands.weights.layout, operands.m,
                                device.traits, tile_m);
  const cudaError_t error = QuantizeAll(operands, args.shares, stream);
  if (error != cudaSuccess) return error;
  cudaLaunchConfig_t launch = {};
  launch.gridDim =
      dim3(std::min(TileCount(args.prefill.grid), device.traits.sm_count));
  launch.blockDim = dim3(kPrefillThreads);
  launch.dynamicSmemBytes = args.smem.rings.total;
  launch.stream = stream;
  const LaunchAttributes attributes(/*cluster=*/1, launch);
  return cudaLaunchKernelEx(&launch, KernelOf(tile_m), args);
}

}  // namespace qgemm::cuda
