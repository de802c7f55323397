// SPDX-License-Identifier: Apache-2.0
//
// From operands to kernel parameters.

#include "base/host_device.h"
#include "kernels/cuda/device/weight_tile.cuh"
#include "kernels/cuda/launch/gemm_launch.cuh"

namespace qgemm::cuda {
namespace {

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

void SetFactors(const TiledWeights& weights, GemmArguments& args) {
  args.table_scale = 1;
  args.factor = weights.factor;
  if (weights.layout.scale_kind == ScaleKind::kE4m4) {
    args.table_scale = kFoldedTableScale;
    args.factor *= 16 / kFoldedTableScale;
  }
  if (weights.layout.codes == kTernaryCodes) {
    args.factor *= weights.zero_unit / kTernaryUnit;
  }
  if (weights.layout.has_zeros) {
    args.table_scale = 1 / weights.zero_unit;
    args.factor *= weights.zero_unit;
  }
}

}  // namespace

cudaError_t MapActivations(const Device& device, const GemmOperands& operands,
                           int tile_m, CUtensorMap& map) {
  if (device.encode_tensor_map == nullptr) return cudaSuccess;
  const cuuint64_t sizes[2] = {
      static_cast<cuuint64_t>(operands.weights.layout.k),
      static_cast<cuuint64_t>(operands.m)};
  const cuuint64_t row_bytes[1] = {static_cast<cuuint64_t>(operands.lda) * 2};
  const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(tile_m)};
  const cuuint32_t step[2] = {1, 1};
  const CUresult result = device.encode_tensor_map(
      &map,
      operands.a_type == FloatType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                             : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
      2, const_cast<void*>(operands.a), sizes, row_bytes, box, step,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

bool ActivationsAreLegal(const GemmOperands& operands) {
  return operands.a_type != FloatType::kFloat32 && operands.lda % 8 == 0 &&
         operands.lda >= operands.weights.layout.k &&
         reinterpret_cast<uintptr_t>(operands.a) % 16 == 0;
}

GemmArguments OperandArguments(const GemmOperands& operands) {
  const TiledWeights& weights = operands.weights;
  const TileLayout& layout = weights.layout;
  GemmArguments args = {};
  args.tiles = weights.memory;
  const bool row = layout.scale_kind == ScaleKind::kRow;
  args.row_scales = row ? weights.row_scales() : nullptr;
  args.bias = weights.has_bias ? weights.bias() : nullptr;
  args.codebook = weights.codebook();
  SetFactors(weights, args);
  args.a = operands.a;
  args.c = operands.c;
  args.lda = operands.lda;
  args.n = layout.n;
  args.k = layout.k;
  args.m = static_cast<int>(operands.m);
  args.n_tiles = layout.tile_config.n_tiles;
  args.k_tiles = static_cast<int>(layout.k_tiles);
  args.split_k = layout.tile_config.split_k;
  args.k_warps = layout.tile_config.k_warps;
  args.tile_code_bytes = static_cast<int>(layout.code_bytes);
  args.tile_scale_bytes = static_cast<int>(layout.scale_bytes);
  args.stage_bytes = static_cast<int>(layout.stage_bytes());
  args.groups = layout.groups;
  args.result = ResultTypeOf(operands.c_type);
  args.vectorized_store =
      layout.n % 4 == 0 && reinterpret_cast<uintptr_t>(operands.c) % 16 == 0;
  return args;
}

PrefillArguments TileArguments(const GemmOperands& operands, int tile_m) {
  const TileLayout& layout = operands.weights.layout;
  PrefillArguments args = {};
  args.gemm = OperandArguments(operands);
  args.gemm.n_tiles = kPrefillNTiles;
  args.gemm.stage_bytes =
      static_cast<int>(layout.tile_bytes()) * kPrefillNTiles;
  const int elements = args.gemm.result == ResultType::kFloat32 ? 4 : 8;
  args.gemm.vectorized_store =
      args.gemm.vectorized_store && layout.n % elements == 0;
  args.grid.n_blocks = static_cast<int>(CeilDiv(layout.n, kPrefillTileN));
  args.grid.m_blocks = static_cast<int>(CeilDiv(operands.m, tile_m));
  args.layer_n_tiles = layout.tile_config.n_tiles;
  args.layer_stage_bytes = static_cast<int>(layout.stage_bytes());
  args.tile_zero_bytes = static_cast<int>(layout.zero_bytes);
  return args;
}

}  // namespace qgemm::cuda
