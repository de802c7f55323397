// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/layer_image.h"

#include <cstdint>
#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/status_macros.h"
#include "kernels/cuda/plan/tile_plan.h"
#include "kernels/host/batch_checks.h"
#include "kernels/host/layer_detail.h"

namespace qgemm::cuda {
namespace {

// All that kernels read a layer by: of another layout it would be garbage.
std::string LayoutBytes(const CudaWeightsParts& parts) {
  std::string bytes;
  const auto append = [&bytes](std::initializer_list<int64_t> values) {
    for (const int64_t value : values) AppendInteger<int64_t>(value, &bytes);
  };
  if (parts.shape.dense) {
    const DenseLayout& dense = parts.dense.layout;
    append({dense.n, dense.k, static_cast<int64_t>(dense.type),
            dense.bias_offset, dense.total_bytes});
    return bytes;
  }
  const TileLayout& tiles = parts.tiled.layout;
  append({tiles.n,
          tiles.k,
          tiles.bits,
          tiles.codes,
          static_cast<int64_t>(tiles.scale_kind),
          tiles.groups,
          tiles.has_zeros ? 1 : 0,
          tiles.tile_config.n_tiles,
          tiles.tile_config.split_k,
          tiles.tile_config.k_warps,
          tiles.tile_config.n_blocks,
          tiles.k_tiles,
          tiles.block_bytes,
          tiles.has_decode_kernel ? 1 : 0,
          tiles.code_bytes,
          tiles.scale_bytes,
          tiles.zero_bytes,
          tiles.row_scales_offset,
          tiles.bias_offset,
          tiles.permutation_offset,
          tiles.codebook_offset,
          tiles.total_bytes});
  return bytes;
}

int64_t BytesOf(const CudaWeightsParts& parts) {
  return parts.shape.dense ? parts.dense.layout.total_bytes
                           : parts.tiled.layout.total_bytes;
}

}  // namespace

std::string DetailOf(const CudaWeightsParts& parts) {
  std::string detail;
  AppendShape(parts.shape, &detail);
  AppendBytesOf(parts.tiled.factor, &detail);
  AppendBytesOf(parts.tiled.zero_unit, &detail);
  AppendBytesOf(parts.tiled.largest_scale, &detail);
  AppendInteger<uint32_t>(static_cast<uint32_t>(parts.codebook.size()),
                          &detail);
  for (const float value : parts.codebook) AppendBytesOf(value, &detail);
  return detail + LayoutBytes(parts);
}

absl::StatusOr<CudaWeightsParts> PartsOf(const LayerImage& image,
                                         const DeviceTraits& device,
                                         const BackendLimits& limits) {
  FieldReader reader(image.detail);
  CudaWeightsParts parts;
  parts.shape = ReadShape(&reader);
  parts.tiled.factor = ReadBytesOf<float>(&reader);
  parts.tiled.zero_unit = ReadBytesOf<float>(&reader);
  parts.tiled.largest_scale = ReadBytesOf<float>(&reader);
  const uint32_t entries = reader.Read<uint32_t>();
  for (uint32_t i = 0; i < entries && reader.ok(); ++i) {
    parts.codebook.push_back(ReadBytesOf<float>(&reader));
  }
  if (!reader.ok()) {
    return absl::InvalidArgumentError(
        "not a layer's detail of the cuda backend");
  }
  RETURN_IF_ERROR(CheckLayerLimits(parts.shape, limits));
  if (parts.shape.dense) {
    ASSIGN_OR_RETURN(parts.dense.layout, DenseLayoutOf(parts.shape));
  } else {
    ASSIGN_OR_RETURN(parts.tiled.layout, PlanTileLayout(parts.shape, device));
    parts.decode_kernel_max_m = DecodeKernelMaxM(parts.tiled.layout, device);
  }
  if (DetailOf(parts) != image.detail) {
    return absl::InvalidArgumentError(
        "the image has another layout than this build makes");
  }
  if (BytesOf(parts) == image.size_bytes) return parts;
  return absl::InvalidArgumentError(
      absl::StrCat("image of ", image.size_bytes,
                   " bytes, of a shape that takes ", BytesOf(parts)));
}

void SetMemory(LayerMemory<DeviceBuffer> memory, CudaWeightsParts* parts) {
  parts->memory = std::move(memory);
  parts->dense.memory = parts->memory.data();
  parts->dense.has_bias = parts->shape.has_bias;
  parts->tiled.memory = parts->memory.data();
  parts->tiled.has_bias = parts->shape.has_bias;
  parts->tiled.has_permutation = parts->shape.has_permutation;
}

}  // namespace qgemm::cuda
