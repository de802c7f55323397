// SPDX-License-Identifier: Apache-2.0
//
// Views into a resident layer's buffer.

#include "kernels/cpu/cpu_weights.h"

namespace qgemm::cpu {
namespace {

int TileScaleOf(ScaleType type) {
  switch (type) {
    case ScaleType::kE4m4:
      return kTileScaleE4m4;
    case ScaleType::kFloat16:
      return kTileScaleFloat16;
    case ScaleType::kBFloat16:
      return kTileScaleBFloat16;
    case ScaleType::kFloat32:
      return kTileScaleFloat32;
  }
  return kTileScaleFloat32;
}

}  // namespace

absl::Span<const float> CpuWeights::bias() const {
  if (!parts_.shape.has_bias) return {};
  return absl::MakeConstSpan(
      reinterpret_cast<const float*>(parts_.memory.data() +
                                     parts_.layout.bias_offset),
      n());
}

absl::Span<const int32_t> CpuWeights::permutation() const {
  if (!parts_.shape.has_permutation) return {};
  return absl::MakeConstSpan(
      reinterpret_cast<const int32_t*>(parts_.memory.data() +
                                       parts_.layout.permutation_offset),
      k());
}

TileArgs CpuWeights::ArgsOfTile(int64_t tile, int family) const {
  const PackedLayout& layout = parts_.layout;
  const uint8_t* base = parts_.memory.data();
  TileArgs args{};
  args.codes = base + layout.codes_offset + tile * layout.tile_code_bytes;
  args.scales = base + layout.scales_offset + tile * layout.tile_scale_bytes;
  args.zeros = base + layout.zeros_offset + tile * layout.tile_zero_bytes;
  const CpuTables& tables = parts_.tables;
  args.table = family == kFamilyQuantABFloat16 ? tables.rounded.data()
                                               : tables.exact.data();
  args.table_high = tables.high.data();
  args.table_low = tables.has_low ? tables.low.data() : nullptr;
  args.zero_unit = parts_.zero_unit;
  args.scale_type = TileScaleOf(parts_.shape.scale_type);
  args.group_shift = layout.group_shift;
  args.blocks = layout.blocks;
  return args;
}

}  // namespace qgemm::cpu
