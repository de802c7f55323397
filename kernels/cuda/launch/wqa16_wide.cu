// SPDX-License-Identifier: Apache-2.0
//
// From operands to a wide kernel of the table and its launch attributes.

#include <algorithm>
#include <atomic>
#include <iterator>

#include "kernels/cuda/device/wgmma.cuh"
#include "kernels/cuda/launch/wqa16_launch.cuh"
#include "kernels/cuda/launch/wqa16_wide.h"
#include "kernels/cuda/launch/wqa16_wide_table.cuh"
#include "kernels/cuda/tuning/wide_choice.h"
#include "kernels/cuda/tuning/wide_order.h"
#include "kernels/cuda/tuning/wide_plan.h"

namespace qgemm::cuda {
namespace {

// Tiles and stages of a launch; indices are ints.
constexpr int64_t kMaxCount = int64_t{1} << 30;

// Of the device that PrepareWqa16Wide has found to run the kernels; 0 before,
// and where they do not run.
std::atomic<int> multiprocessors{0};

__global__ void AskForWgmma(int* has) { *has = QGEMM_HAS_WGMMA; }

const Wqa16WideTable* TableOf(int codes) {
  switch (codes) {
    case kTernaryCodes:
      return &Wqa16WideKernelsTernary();
    case 2:
      return &Wqa16WideKernelsW2();
    case 3:
      return &Wqa16WideKernelsW3();
    case 4:
      return &Wqa16WideKernelsW4();
    case 5:
      return &Wqa16WideKernelsW5();
  }
  return nullptr;
}

// Whether the code that was loaded for the device has wgmma: only code made for
// that very chip has, and not what the driver compiles.
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

cudaError_t AllowSharedMemory(const Wqa16WideRow& row) {
  for (const auto& kernels : row.kernel) {
    for (const Wqa16WideKernel kernel : kernels) {
      if (kernel == nullptr) continue;
      const cudaError_t error = cudaFuncSetAttribute(
          kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxBlockBytes);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

cudaError_t AllowSharedMemory() {
  for (const int codes : {kTernaryCodes, 2, 3, 4, 5}) {
    const Wqa16WideTable& table = *TableOf(codes);
    for (const auto& rows : {table.plain, table.zeros}) {
      for (int i = 0; i < kWideScaleKinds; ++i) {
        const cudaError_t error = AllowSharedMemory(rows[i]);
        if (error != cudaSuccess) return error;
      }
    }
  }
  return cudaSuccess;
}

bool IsTokenCount(int tokens) {
  return std::find(std::begin(kWideTokenCounts), std::end(kWideTokenCounts),
                   tokens) != std::end(kWideTokenCounts);
}

int StageBytesOf(const TileLayout& layout) {
  return static_cast<int>(layout.tile_bytes()) * kWideRowTiles;
}

WideWork WorkOf(const TileLayout& layout, int64_t m) {
  WideWork work;
  work.m = m;
  work.n = layout.n;
  work.stages = static_cast<int>(layout.column_tiles);
  work.offers_many_tokens = OffersManyTokens(layout.codes, layout.scale_kind);
  work.multiprocessors = std::max(1, multiprocessors.load());
  return work;
}

WideArguments ArgumentsOf(const GemmOperands& operands, int tokens) {
  const TileLayout& layout = operands.weights.layout;
  WideArguments args = {};
  args.gemm = OperandArguments(operands);
  args.gemm.row_tiles = kWideRowTiles;
  args.gemm.stage_bytes = StageBytesOf(layout);
  const int elements = args.gemm.result == ResultType::kFloat32 ? 4 : 8;
  args.gemm.c_by_fours = args.gemm.c_by_fours && layout.n % elements == 0;
  args.grid.row_blocks =
      static_cast<int>((layout.n + kWideRows - 1) / kWideRows);
  args.grid.token_blocks = static_cast<int>((operands.m + tokens - 1) / tokens);
  args.plan = PlanWide(layout.codes, tokens, StageBytesOf(layout));
  args.layer_row_tiles = layout.partition.row_tiles;
  args.layer_stage_bytes = static_cast<int>(layout.stage_bytes());
  args.tile_zero_bytes = static_cast<int>(layout.zero_bytes);
  return args;
}

bool IsLegal(const GemmOperands& operands) {
  const TileLayout& layout = operands.weights.layout;
  if (!OffersWqa16Wide(layout) || operands.m < 1 || operands.m > kMaxCount) {
    return false;
  }
  constexpr int kFewest = kWideTokenCounts[0];
  const int64_t tiles = (layout.n + kWideRows - 1) / kWideRows *
                        ((operands.m + kFewest - 1) / kFewest);
  return tiles <= kMaxCount && tiles * layout.column_tiles <= kMaxCount &&
         ActivationsAreLegal(operands);
}

// Null if there is none.
Wqa16WideKernel KernelOf(const GemmOperands& operands, int tokens) {
  const TileLayout& layout = operands.weights.layout;
  const Wqa16WideTable& table = *TableOf(layout.codes);
  const Wqa16WideRow& row =
      (layout.has_zeros ? table.zeros
                        : table.plain)[static_cast<int>(layout.scale_kind)];
  for (int i = 0; i < kWideTokenChoices; ++i) {
    if (kWideTokenCounts[i] == tokens) {
      return row.kernel[operands.a_type == FloatType::kBFloat16][i];
    }
  }
  return nullptr;
}

}  // namespace

cudaError_t PrepareWqa16Wide() {
  int device = 0;
  int count = 0;
  int block_bytes = 0;
  bool has_wgmma = false;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error =
        cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  }
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(
        &block_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  if (error == cudaSuccess) error = FindWgmma(has_wgmma);
  if (error != cudaSuccess) return error;
  if (!has_wgmma || block_bytes < kMaxBlockBytes) return cudaSuccess;
  error = AllowSharedMemory();
  if (error == cudaSuccess) error = PrepareCopyEngine();
  if (error == cudaSuccess) multiprocessors = count;
  return error;
}

bool OffersWqa16Wide(const TileLayout& layout, int tokens) {
  const bool whole = layout.groups == 1 ||
                     layout.scale_kind == ScaleKind::kE4m4 ||
                     layout.scale_kind == ScaleKind::kRow;
  const bool has_tiles =
      tokens <= 128 || OffersManyTokens(layout.codes, layout.scale_kind);
  return multiprocessors.load() > 0 && IsTokenCount(tokens) && whole &&
         has_tiles && layout.n <= kMaxCount && layout.column_tiles <= kMaxCount;
}

int Wqa16WideTokens(const TileLayout& layout, int64_t m) {
  return WideTokens(WorkOf(layout, m));
}

double Wqa16WideMicroseconds(const TileLayout& layout, int64_t m) {
  return WideMicroseconds(WorkOf(layout, m));
}

cudaError_t LaunchWqa16Wide(const GemmOperands& operands, cudaStream_t stream,
                            int tokens) {
  if (!IsLegal(operands)) return cudaErrorInvalidValue;
  if (tokens == 0) {
    tokens = Wqa16WideTokens(operands.weights.layout, operands.m);
  }
  const Wqa16WideKernel kernel = KernelOf(operands, tokens);
  if (kernel == nullptr) return cudaErrorInvalidValue;
  WideArguments args = ArgumentsOf(operands, tokens);
  const cudaError_t mapped = MapActivations(operands, tokens, args.gemm.a_map);
  if (mapped != cudaSuccess) return mapped;

  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(std::min(WideTiles(args.grid), multiprocessors.load()));
  config.blockDim = dim3(kWideThreads);
  config.dynamicSmemBytes = args.plan.total;
  config.stream = stream;
  cudaLaunchAttribute attributes[1] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  config.attrs = attributes;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, args);
}

}  // namespace qgemm::cuda
