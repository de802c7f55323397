// SPDX-License-Identifier: Apache-2.0
//
// The layout of a layer, checked in 64 bits, and views into its buffer.

#include "kernels/cpu/cpu_weights.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/cpu/microkernels/code_packing.h"

namespace qgemm::cpu {
namespace {

constexpr int64_t kAlignment = 64;
// Far beyond any memory, and far enough from overflow for the sums here.
constexpr int64_t kMaxElements = int64_t{1} << 50;
// Shifts any block index to group 0: one scale a row.
constexpr int kWholeRowShift = 62;

absl::Status CheckShape(const WeightsShape& shape) {
  if (shape.n < 1 || shape.k < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weights: n = ", shape.n, ", k = ", shape.k, "; both must be >= 1"));
  }
  const std::optional<int64_t> elements =
      CheckedMul(RoundUp(shape.n, kTileRows), shape.k);
  if (shape.n > kMaxElements || shape.k > kMaxElements ||
      !elements.has_value() || *elements > kMaxElements) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights: n = ", shape.n, ", k = ", shape.k,
                     " are beyond 2^50 elements"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> GroupShift(const WeightsShape& shape) {
  if (shape.group_size >= shape.k) return kWholeRowShift;
  switch (shape.group_size) {
    case 32:
      return 0;
    case 64:
      return 1;
    case 128:
      return 2;
  }
  return absl::UnimplementedError(
      absl::StrCat("weights: group_size = ", shape.group_size,
                   "; the cpu backend offers 32, 64, 128 and k = ", shape.k));
}

absl::Status CheckQuantized(const WeightsShape& shape) {
  if (shape.bits < 2 || shape.bits > 5) {
    return absl::UnimplementedError(absl::StrCat(
        "weights: bits = ", shape.bits, "; the cpu backend offers 2 to 5"));
  }
  if (shape.group_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weights: group_size = ", shape.group_size, "; it must be >= 1"));
  }
  return absl::OkStatus();
}

absl::Status FillQuantized(const WeightsShape& shape, PackedLayout& layout) {
  RETURN_IF_ERROR(CheckQuantized(shape));
  ASSIGN_OR_RETURN(layout.group_shift, GroupShift(shape));
  layout.groups = shape.groups_per_row();
  layout.tile_code_bytes = layout.blocks * BlockBytes(shape.bits);
  layout.tile_scale_bytes =
      layout.groups * kTileRows * SizeOf(shape.scale_type);
  if (shape.has_zeros) layout.tile_zero_bytes = layout.groups * kTileRows;
  return absl::OkStatus();
}

absl::Status FillDense(const WeightsShape& shape, PackedLayout& layout) {
  if (SizeOf(shape.dense_type) != 2) {
    return absl::UnimplementedError(
        absl::StrCat("weights: dense type ", Name(shape.dense_type),
                     "; the cpu backend offers fp16 and bf16"));
  }
  layout.tile_code_bytes = layout.blocks * kBlockElements * kTileRows * 2;
  return absl::OkStatus();
}

// Takes `bytes` at the end of the buffer and returns where they start.
int64_t Take(int64_t bytes, PackedLayout& layout) {
  const int64_t offset = layout.total_bytes;
  layout.total_bytes += RoundUp(bytes, kAlignment);
  return offset;
}

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

absl::StatusOr<PackedLayout> LayoutOf(const WeightsShape& shape) {
  RETURN_IF_ERROR(CheckShape(shape));
  PackedLayout layout;
  layout.tiles = CeilDiv(shape.n, kTileRows);
  layout.blocks = CeilDiv(shape.k, kBlockElements);
  if (shape.dense) {
    RETURN_IF_ERROR(FillDense(shape, layout));
  } else {
    RETURN_IF_ERROR(FillQuantized(shape, layout));
  }
  layout.codes_offset = Take(layout.tiles * layout.tile_code_bytes, layout);
  layout.scales_offset = Take(layout.tiles * layout.tile_scale_bytes, layout);
  layout.zeros_offset = Take(layout.tiles * layout.tile_zero_bytes, layout);
  layout.bias_offset = Take(shape.has_bias ? shape.n * 4 : 0, layout);
  layout.permutation_offset =
      Take(shape.has_permutation ? shape.k * 4 : 0, layout);
  return layout;
}

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

TileArgs CpuWeights::ArgsOfTile(int64_t tile, FloatType entry_type) const {
  const PackedLayout& layout = parts_.layout;
  const uint8_t* base = parts_.memory.data();
  TileArgs args{};
  args.codes = base + layout.codes_offset + tile * layout.tile_code_bytes;
  args.scales = base + layout.scales_offset + tile * layout.tile_scale_bytes;
  args.zeros = base + layout.zeros_offset + tile * layout.tile_zero_bytes;
  const CpuTables& tables = parts_.tables;
  args.table = entry_type == FloatType::kBFloat16 ? tables.rounded.data()
                                                  : tables.entries.data();
  args.table_high = tables.high.data();
  args.table_low = tables.has_low ? tables.low.data() : nullptr;
  args.zero_unit = parts_.zero_unit;
  args.scale_type = TileScaleOf(parts_.shape.scale_type);
  args.group_shift = layout.group_shift;
  args.blocks = layout.blocks;
  args.block_bytes = layout.tile_code_bytes / layout.blocks;
  args.tiles = 1;
  args.next_codes = layout.tile_code_bytes;
  args.next_scales = layout.tile_scale_bytes;
  args.next_zeros = layout.tile_zero_bytes;
  return args;
}

}  // namespace qgemm::cpu
