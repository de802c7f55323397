// SPDX-License-Identifier: Apache-2.0
//
// From operands to a kernel of the table and its launch attributes.

#include <algorithm>
#include <atomic>

#include "kernels/cuda/launch/wqa16_gemm.h"
#include "kernels/cuda/launch/wqa16_gemm_table.cuh"

namespace qgemm::cuda {
namespace {

static_assert(kMaxRowTiles == kMaxGroups * kGroupWarps,
              "a warp multiplies one row tile");
static_assert(kTokenTileCounts[kTokenTileChoices - 1] * 8 == kMaxSmallM,
              "the widest kernel takes all tokens of a launch");

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
  if (layout.scale_kind == ScaleKind::kE4m4) {
    args.table_scale = kFoldedTableScale;
    args.factor *= 16 / kFoldedTableScale;
  }
  if (layout.codes == kTernaryCodes) args.factor /= kTernaryUnit;
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
  args.result = ResultTypeOf(operands.c_type);
  args.c_by_fours =
      layout.n % 4 == 0 && reinterpret_cast<uintptr_t>(operands.c) % 16 == 0;
  return args;
}

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// The driver's function, once PrepareWqa16Gemm has run on a device that has
// a copy engine.
std::atomic<EncodeTiled> encode_tiled{nullptr};

cudaError_t FindEncodeTiled() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(
      "cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
  if (error != cudaSuccess) return error;
  if (found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
  encode_tiled = reinterpret_cast<EncodeTiled>(function);
  return cudaSuccess;
}

// Describes A to the copy engine: boxes of `tokens` by 64 columns, swizzled,
// zero beyond m and k.
cudaError_t MapActivations(const GemmOperands& operands, int tokens,
                           CUtensorMap& map) {
  const EncodeTiled encode = encode_tiled;
  if (encode == nullptr) return cudaSuccess;
  const cuuint64_t sizes[2] = {
      static_cast<cuuint64_t>(operands.weights.layout.k),
      static_cast<cuuint64_t>(operands.m)};
  const cuuint64_t row_bytes[1] = {static_cast<cuuint64_t>(operands.lda) * 2};
  const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(tokens)};
  const cuuint32_t step[2] = {1, 1};
  const CUresult result = encode(
      &map,
      operands.a_type == FloatType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                             : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
      2, const_cast<void*>(operands.a), sizes, row_bytes, box, step,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

bool IsLegal(const GemmOperands& operands) {
  return operands.m >= 1 && operands.m <= kMaxSmallM &&
         operands.weights.layout.has_small_family &&
         operands.a_type != FloatType::kFloat32 && operands.lda % 8 == 0 &&
         operands.lda >= operands.weights.layout.k &&
         reinterpret_cast<uintptr_t>(operands.a) % 16 == 0;
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
  if (error == cudaSuccess && major >= 9) error = FindEncodeTiled();
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
  GemmArguments args = ArgumentsOf(operands);
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
  config.gridDim = dim3(partition.row_blocks * partition.splits);
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
