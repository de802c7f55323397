// SPDX-License-Identifier: Apache-2.0
//
// From operands to a kernel of the table and its launch attributes.

#include <algorithm>

#include "kernels/cuda/launch/wqa16_gemm.h"
#include "kernels/cuda/launch/wqa16_gemm_table.cuh"

namespace qgemm::cuda {
namespace {

// Beyond these a deeper ring measured no gain.
constexpr int kMaxSlots = 24;

const Wqa16KernelTable* TableOf(int bits) {
  switch (bits) {
    case 2:
      return &Wqa16KernelsW2();
    case 3:
      return &Wqa16KernelsW3();
    case 4:
      return &Wqa16KernelsW4();
    case 5:
      return &Wqa16KernelsW5();
  }
  return nullptr;
}

int TokenTileChoice(int64_t m) {
  for (int choice = 0; choice < kTokenTileChoices; ++choice) {
    if (m <= kTokenTileCounts[choice] * 8) return choice;
  }
  return kTokenTileChoices - 1;
}

GeneralScale GeneralScaleOf(ScaleKind kind) {
  switch (kind) {
    case ScaleKind::kFloat16:
      return GeneralScale::kFloat16;
    case ScaleKind::kBFloat16:
      return GeneralScale::kBFloat16;
    case ScaleKind::kFloat32:
      return GeneralScale::kFloat32;
    default:
      return GeneralScale::kRow;
  }
}

ResultType ResultTypeOf(FloatType type) {
  switch (type) {
    case FloatType::kFloat16:
      return ResultType::kFloat16;
    case FloatType::kBFloat16:
      return ResultType::kBFloat16;
    default:
      return ResultType::kFloat32;
  }
}

// Slots of the ring: as many as fit beside another block, else alone. Where
// slots are used again, warps that take turns keep to slots of their own, so
// that none waits for a phase that lies two ahead.
int SlotsFor(const TileLayout& layout, int token_tiles, int stages) {
  const int turns = layout.partition.column_warps;
  const int room =
      std::min(kMaxSlots, SlotsThatFit(layout.bits, token_tiles * 8,
                                       static_cast<int>(layout.stage_bytes())));
  return stages <= room ? stages : room / turns * turns;
}

GemmArguments ArgumentsOf(const GemmOperands& operands) {
  const TiledWeights& weights = operands.weights;
  const TileLayout& layout = weights.layout;
  GemmArguments args = {};
  args.tiles = weights.memory;
  const bool row = layout.scale_kind == ScaleKind::kRow;
  args.row_scales = row ? weights.row_scales() : nullptr;
  args.bias = weights.has_bias ? weights.bias() : nullptr;
  args.codebook = weights.codebook();
  args.table_scale = 1;
  args.factor = weights.factor;
  if (layout.scale_kind == ScaleKind::kE4m4) args.factor *= 16;
  if (layout.has_zeros) {
    args.table_scale = 1 / weights.zero_unit;
    args.factor *= weights.zero_unit;
  }
  args.a = operands.a;
  args.c = operands.c;
  args.lda = operands.lda;
  args.n = layout.n;
  args.k = layout.k;
  args.m = static_cast<int>(operands.m);
  args.row_tiles = layout.partition.row_tiles;
  args.column_tiles = static_cast<int>(layout.column_tiles);
  args.splits = layout.partition.splits;
  args.column_warps = layout.partition.column_warps;
  args.tile_code_bytes = static_cast<int>(layout.code_bytes);
  args.tile_scale_bytes = static_cast<int>(layout.scale_bytes);
  args.stage_bytes = static_cast<int>(layout.stage_bytes());
  args.groups = layout.groups;
  args.scale = GeneralScaleOf(layout.scale_kind);
  args.result = ResultTypeOf(operands.c_type);
  return args;
}

bool IsLegal(const GemmOperands& operands) {
  return operands.m >= 1 && operands.m <= kMaxSmallM &&
         operands.a_type != FloatType::kFloat32 && operands.lda % 8 == 0 &&
         operands.lda >= operands.weights.layout.k &&
         reinterpret_cast<uintptr_t>(operands.a) % 16 == 0;
}

}  // namespace

cudaError_t PrepareWqa16Gemm() {
  for (const int bits : {2, 3, 4, 5}) {
    const Wqa16KernelTable& table = *TableOf(bits);
    for (const Wqa16KernelRow* row :
         {&table.e4m4, &table.general, &table.zeros}) {
      for (const auto& kernels : row->kernel) {
        for (const Wqa16Kernel kernel : kernels) {
          if (kernel == nullptr) continue;
          const cudaError_t error = cudaFuncSetAttribute(
              kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
              kBlockSharedBytes);
          if (error != cudaSuccess) return error;
        }
      }
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchWqa16Gemm(const GemmOperands& operands, cudaStream_t stream) {
  if (!IsLegal(operands)) return cudaErrorInvalidValue;
  const TileLayout& layout = operands.weights.layout;
  const Wqa16KernelTable& table = *TableOf(layout.bits);
  const Wqa16KernelRow& row = layout.scale_kind == ScaleKind::kE4m4 ? table.e4m4
                              : layout.has_zeros ? table.zeros
                                                 : table.general;
  const int choice = TokenTileChoice(operands.m);
  const Wqa16Kernel kernel =
      row.kernel[operands.a_type == FloatType::kBFloat16][choice];
  if (kernel == nullptr) return cudaErrorInvalidValue;
  GemmArguments args = ArgumentsOf(operands);
  const Partition& partition = layout.partition;
  const int token_tiles = kTokenTileCounts[choice];
  const int stages = static_cast<int>(
      (layout.column_tiles + partition.splits - 1) / partition.splits);
  args.slots = SlotsFor(layout, token_tiles, stages);

  const int row_warps =
      (partition.row_tiles + kTilesPerWarp - 1) / kTilesPerWarp;
  const int partials = partition.column_warps * token_tiles * 8 *
                       PartialStride(partition.row_tiles) * 4;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(partition.row_blocks * partition.splits);
  config.blockDim =
      dim3((row_warps * partition.column_warps + kProducerWarps) * 32);
  config.dynamicSmemBytes = std::max(
      partials,
      PlanShared(layout.bits, token_tiles * 8, args.slots, args.stage_bytes)
          .total);
  config.stream = stream;
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(partition.splits), 1,
                                  1};
  config.attrs = attributes;
  config.numAttrs = partition.splits > 1 ? 2 : 1;
  return cudaLaunchKernelEx(&config, kernel, args);
}

}  // namespace qgemm::cuda
