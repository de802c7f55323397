// SPDX-License-Identifier: Apache-2.0
//
// From operands to a kernel of the table and its launch attributes.

#include <algorithm>

#include "kernels/cuda/launch/wqa16_gemm.h"
#include "kernels/cuda/launch/wqa16_gemm_table.cuh"
#include "kernels/cuda/launch/wqa16_launch.cuh"

namespace qgemm::cuda {
namespace {

static_assert(kMaxRowTiles == kMaxGroups * kGroupWarps,
              "a warp multiplies one row tile");
static_assert(kTokenTileCounts[kTokenTileChoices - 1] * 8 == kMaxBlockTokens,
              "the widest kernel takes as many tokens as a block");

// Beyond these a deeper ring measured no gain.
constexpr int kMaxSlots = 24;

const Wqa16KernelTable* TableOf(int codes) {
  switch (codes) {
    case kTernaryCodes:
      return &Wqa16KernelsTernary();
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

SharedShape SharedShapeOf(const TileLayout& layout, int tokens) {
  const Partition& partition = layout.partition;
  SharedShape shape;
  shape.codes = layout.codes;
  shape.tokens = tokens;
  shape.stage_bytes = static_cast<int>(layout.stage_bytes());
  shape.row_tiles = partition.row_tiles;
  shape.splits = partition.splits;
  shape.column_warps = partition.column_warps;
  shape.block_bytes = layout.block_bytes;
  return shape;
}

// Slots of the ring for that many stages. Where slots are used again, warps
// that take turns keep to slots of their own, so that none waits for a phase
// that lies two ahead.
int SlotsFor(const SharedShape& shape, int stages) {
  const int turns = shape.column_warps;
  const int room = std::min(kMaxSlots, SlotsThatFit(shape));
  return stages <= room ? stages : room / turns * turns;
}

bool IsLegal(const GemmOperands& operands) {
  return operands.m >= 1 && operands.m <= kMaxSmallM &&
         operands.weights.layout.has_small_family &&
         ActivationsAreLegal(operands);
}

cudaError_t AllowSharedMemory(const Wqa16KernelRow& row, int bytes) {
  for (const auto& kernels : row.kernel) {
    for (const Wqa16Kernel kernel : kernels) {
      if (kernel == nullptr) continue;
      const cudaError_t error = cudaFuncSetAttribute(
          kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t PrepareWqa16Gemm() {
  int device = 0;
  int major = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                                   device);
  }
  int bytes = 0;
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(
        &bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  bytes = std::min(bytes, kMaxBlockBytes);
  if (error == cudaSuccess && major >= 9) error = PrepareCopyEngine();
  if (error != cudaSuccess) return error;
  for (const int codes : {kTernaryCodes, 2, 3, 4, 5}) {
    const Wqa16KernelTable& table = *TableOf(codes);
    for (const auto& rows : {table.plain, table.zeros}) {
      for (int i = 0; i < kScaleKinds; ++i) {
        const cudaError_t error = AllowSharedMemory(rows[i], bytes);
        if (error != cudaSuccess) return error;
      }
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchWqa16Gemm(const GemmOperands& operands, cudaStream_t stream) {
  if (!IsLegal(operands)) return cudaErrorInvalidValue;
  const TileLayout& layout = operands.weights.layout;
  const Wqa16KernelTable& table = *TableOf(layout.codes);
  const Wqa16KernelRow& row =
      (layout.has_zeros ? table.zeros
                        : table.plain)[static_cast<int>(layout.scale_kind)];
  const int choice = TokenTileChoice(operands.m);
  const Wqa16Kernel kernel =
      row.kernel[operands.a_type == FloatType::kBFloat16][choice];
  if (kernel == nullptr) return cudaErrorInvalidValue;
  GemmArguments args = OperandArguments(operands);
  const Partition& partition = layout.partition;
  const int token_tiles = kTokenTileCounts[choice];
  const int stages = static_cast<int>(
      (layout.column_tiles + partition.splits - 1) / partition.splits);
  const SharedShape shape = SharedShapeOf(layout, token_tiles * 8);
  args.slots = SlotsFor(shape, stages);
  const cudaError_t mapped =
      MapActivations(operands, token_tiles * 8, args.a_map);
  if (mapped != cudaSuccess) return mapped;

  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(partition.row_blocks * partition.splits,
                        (operands.m + kMaxBlockTokens - 1) / kMaxBlockTokens);
  config.blockDim =
      dim3((RowGroups(partition.row_tiles) * partition.column_warps + 1) *
           kGroupWarps * 32);
  config.dynamicSmemBytes = PlanShared(shape, args.slots).total;
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
