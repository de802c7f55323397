// SPDX-License-Identifier: Apache-2.0
//
// Adds up the parts of a layer, checked in 64 bits.

#include "kernels/cuda/layout/tile_layout.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kAlignment = 256;
// Far beyond any memory, and far enough from overflow for the sums here.
constexpr int64_t kMaxElements = int64_t{1} << 50;

absl::Status CheckShape(const WeightsShape& shape) {
  if (shape.n < 1 || shape.k < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weights: n = ", shape.n, ", k = ", shape.k, "; both must be >= 1"));
  }
  if (shape.n <= kMaxElements && shape.k <= kMaxElements) {
    const std::optional<int64_t> elements =
        CheckedMul(RoundUp(shape.n, kTileRows * kMaxNTiles),
                   RoundUp(shape.k, kTileColumns));
    if (elements.has_value() && *elements <= kMaxElements) {
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("weights: n = ", shape.n,
                                                 ", k = ", shape.k,
                                                 " are beyond 2^50 elements"));
}

absl::Status CheckCodes(const WeightsShape& shape) {
  if (shape.bits < 2 || shape.bits > 5) {
    return absl::UnimplementedError(absl::StrCat(
        "weights: bits = ", shape.bits, "; the cuda backend offers 2 to 5"));
  }
  if (shape.has_zeros && (shape.bits != 4 || !shape.integer_codes)) {
    return absl::UnimplementedError(absl::StrCat(
        "weights: zeros with bits = ", shape.bits,
        "; the cuda backend offers zeros with 4-bit integer codes"));
  }
  return absl::OkStatus();
}

ScaleKind KindOf(ScaleType type) {
  switch (type) {
    case ScaleType::kE4m4:
      return ScaleKind::kE4m4;
    case ScaleType::kFloat16:
      return ScaleKind::kFloat16;
    case ScaleType::kBFloat16:
      return ScaleKind::kBFloat16;
    case ScaleType::kFloat32:
      return ScaleKind::kFloat32;
  }
  return ScaleKind::kRow;
}

absl::Status SetScales(const WeightsShape& shape, TileLayout& layout) {
  if (shape.group_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weights: group_size = ", shape.group_size, "; it must be >= 1"));
  }
  if (shape.group_size >= shape.k) {
    layout.scale_kind = ScaleKind::kRow;
    return absl::OkStatus();
  }
  if (shape.group_size != 32 && shape.group_size != 64 &&
      shape.group_size != 128) {
    return absl::UnimplementedError(absl::StrCat(
        "weights: group_size = ", shape.group_size,
        "; the cuda backend offers 32, 64, 128 and k = ", shape.k));
  }
  layout.scale_kind = KindOf(shape.scale_type);
  layout.groups = static_cast<int>(kTileColumns / shape.group_size);
  const bool e4m4 = layout.scale_kind == ScaleKind::kE4m4;
  if (e4m4 && layout.groups != 4) {
    return absl::UnimplementedError(
        absl::StrCat("weights: e4m4 scales of group_size = ", shape.group_size,
                     "; the cuda backend offers 32"));
  }
  if (!e4m4 && shape.bits != 4) {
    return absl::UnimplementedError(absl::StrCat(
        "weights: ", Name(shape.scale_type), " scales of group_size = ",
        shape.group_size, " with bits = ", shape.bits,
        "; the cuda backend offers them with 4 bits"));
  }
  return absl::OkStatus();
}

bool IsTernary(const WeightsShape& shape, const TileLayout& layout) {
  return shape.bits == 2 && !shape.has_zeros &&
         layout.scale_kind == ScaleKind::kRow && shape.ternary_codes;
}

// Takes `bytes` at the end of the layer and returns where they start.
int64_t Take(int64_t bytes, TileLayout& layout) {
  const int64_t offset = layout.total_bytes;
  layout.total_bytes += RoundUp(bytes, kAlignment);
  return offset;
}

}  // namespace

absl::StatusOr<TileLayout> DescribeTiles(const WeightsShape& shape) {
  RETURN_IF_ERROR(CheckShape(shape));
  RETURN_IF_ERROR(CheckCodes(shape));
  TileLayout layout;
  layout.n = shape.n;
  layout.k = shape.k;
  layout.bits = shape.bits;
  layout.has_zeros = shape.has_zeros;
  RETURN_IF_ERROR(SetScales(shape, layout));
  layout.codes = IsTernary(shape, layout) ? kTernaryCodes
                 : layout.has_zeros       ? kNumberCodes
                                          : layout.bits;
  layout.k_tiles = CeilDiv(shape.k, kTileColumns);
  layout.code_bytes = int64_t{kTileRows} * kTileColumns * shape.bits / 8;
  if (layout.scale_kind != ScaleKind::kRow) {
    layout.scale_bytes =
        int64_t{kTileRows} * layout.groups * SizeOf(shape.scale_type);
  }
  if (shape.has_zeros) layout.zero_bytes = kTileRows * layout.groups;
  return layout;
}

void PlaceParts(const WeightsShape& shape, TileLayout& layout) {
  layout.total_bytes = 0;
  Take(layout.tiles_bytes(), layout);
  const bool row_scales = layout.scale_kind == ScaleKind::kRow;
  layout.row_scales_offset =
      Take(row_scales ? layout.padded_n() * 4 : 0, layout);
  layout.bias_offset = Take(shape.has_bias ? shape.n * 4 : 0, layout);
  layout.permutation_offset =
      Take(shape.has_permutation ? shape.k * 4 : 0, layout);
  layout.codebook_offset = Take(int64_t{4} << shape.bits, layout);
}

}  // namespace qgemm::cuda
