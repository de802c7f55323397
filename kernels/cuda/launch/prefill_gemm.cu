// SPDX-License-Identifier: Apache-2.0
//
// From operands to a prefill kernel of the table and its launch attributes.

#include <cmath>

#include "base/host_device.h"
#include "kernels/cuda/device/wgmma.cuh"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/launch/gemm_launch.cuh"
#include "kernels/cuda/launch/kernel_table.cuh"
#include "kernels/cuda/plan/prefill_plan.h"
#include "kernels/cuda/plan/scale_folding.h"
#include "kernels/cuda/plan/smem_layout.h"

namespace qgemm::cuda {
namespace {

__global__ void AskForWgmma(int* has) { *has = QGEMM_HAS_WGMMA; }

const KernelTable<PrefillKernel>& TableOf(int codes) {
  using Table = const KernelTable<PrefillKernel>& (*)();
  constexpr Table kTables[] = {PrefillKernels<kTernaryCodes>,
                               PrefillKernels<2>,
                               PrefillKernels<3>,
                               PrefillKernels<4>,
                               PrefillKernels<5>,
                               PrefillKernels<kNumberCodes>};
  return kTables[codes - kTernaryCodes]();
}

// Finds DeviceTraits::has_wgmma.
cudaError_t FindWgmma(bool& has) {
  int* answer = nullptr;
  int value = 0;
  cudaError_t error = cudaMalloc(&answer, sizeof(int));
  if (error != cudaSuccess) return error;
  AskForWgmma<<<1, 1>>>(answer);
  error = cudaGetLastError();
  if (error == cudaSuccess) {
    error = cudaMemcpy(&value, answer, sizeof(int), cudaMemcpyDeviceToHost);
  }
  cudaFree(answer);
  has = value != 0;
  return error;
}

// 2^exponent, as fp16.
uint16_t HalfPowerOfTwo(int exponent) {
  return static_cast<uint16_t>((exponent + 15) << 10);
}

void FoldScales(const GemmOperands& operands, PrefillArguments& args) {
  const TiledWeights& weights = operands.weights;
  if (weights.layout.scale_kind != ScaleKind::kFloat16 ||
      operands.a_type != FloatType::kFloat16) {
    return;
  }
  const ScaleFolding folding =
      FoldingOf(weights.largest_scale, weights.layout.has_zeros);
  args.scale_factor = HalfPowerOfTwo(folding.of_scales) * 0x10001u;
  args.gemm.table_scale *= std::ldexp(1.0f, folding.of_table);
  args.gemm.factor *= std::ldexp(1.0f, -folding.of_scales - folding.of_table);
}

PrefillArguments ArgumentsOf(const GemmOperands& operands,
                             const PrefillWork& work,
                             const PrefillTiling& tiling) {
  PrefillArguments args = TileArguments(operands, tiling.tile_m);
  args.pairs = tiling.pairs ? 1 : 0;
  args.smem = PrefillSmemLayoutOf(operands.weights.layout.codes, tiling.tile_m,
                                  args.gemm.stage_bytes);
  args.handed = operands.handed;
  FoldScales(operands, args);
  args.schedule = ScheduleOf(work, tiling);
  return args;
}

bool IsLegal(const DeviceTraits& device, const GemmOperands& operands) {
  const TileLayout& layout = operands.weights.layout;
  if (!OffersPrefill(layout, device) || operands.m < 1 ||
      operands.m > kMaxPrefillCount) {
    return false;
  }
  const int64_t tiles =
      CeilDiv(layout.n, kPrefillTileN) * CeilDiv(operands.m, kPrefillTileMs[0]);
  return tiles <= kMaxPrefillCount &&
         tiles * layout.k_tiles <= kMaxPrefillCount &&
         ActivationsAreLegal(operands);
}

// Null if there is none.
PrefillKernel KernelOf(const GemmOperands& operands, int tile_m) {
  const TileLayout& layout = operands.weights.layout;
  for (int i = 0; i < kTileMChoices; ++i) {
    if (kPrefillTileMs[i] == tile_m) {
      return TableOf(layout.codes).Find(layout, operands.a_type, i);
    }
  }
  return nullptr;
}

}  // namespace

cudaError_t PreparePrefillGemm(Device& device) {
  const cudaError_t error = FindWgmma(device.traits.has_wgmma);
  if (error != cudaSuccess || !RunsPrefill(device.traits)) return error;
  for (const int codes : kCodeKinds) {
    const cudaError_t allowed =
        TableOf(codes).AllowSharedMemory(kMaxBlockBytes);
    if (allowed != cudaSuccess) return allowed;
  }
  return cudaSuccess;
}

cudaError_t LaunchPrefillGemm(const Device& device,
                              const GemmOperands& operands, cudaStream_t stream,
                              PrefillTiling tiling) {
  if (!IsLegal(device.traits, operands)) return cudaErrorInvalidValue;
  const PrefillWork work =
      PrefillWorkOf(operands.weights.layout, operands.m, device.traits);
  if (tiling.tile_m == 0) tiling = BestPrefillEstimate(work).tiling;
  const PrefillKernel kernel = KernelOf(operands, tiling.tile_m);
  if (kernel == nullptr) return cudaErrorInvalidValue;
  tiling.splits = tiling.splits && operands.handed != nullptr &&
                  OffersSplit(work, tiling.tile_m, tiling.pairs);
  PrefillArguments args = ArgumentsOf(operands, work, tiling);
  const cudaError_t mapped = MapActivations(
      device, operands, tiling.tile_m >> args.pairs, args.gemm.a_map);
  if (mapped != cudaSuccess) return mapped;

  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(args.schedule.blocks << args.pairs);
  launch.blockDim = dim3(kPrefillThreads);
  launch.dynamicSmemBytes = args.smem.total;
  launch.stream = stream;
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {2, 1, 1};
  launch.attrs = attributes;
  launch.numAttrs = 1 + args.pairs;
  return cudaLaunchKernelEx(&launch, kernel, args);
}

}  // namespace qgemm::cuda
