// SPDX-License-Identifier: Apache-2.0
//
// Adds up the parts of a layer, checked in 64 bits.

#include "kernels/cpu/packed_layout.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/cpu/code_packing.h"
#include "kernels/cpu/microkernel.h"

namespace qgemm {
namespace {

constexpr int64_t kAlignment = 64;
// Far beyond any memory, and far enough from overflow for the sums here.
constexpr int64_t kMaxElements = int64_t{1} << 50;
// Shifts any block index to group 0: one scale a row.
constexpr int kWholeRowShift = 62;

absl::Status CheckShape(const WeightsHeader& header) {
  if (header.n < 1 || header.k < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weights: n = ", header.n, ", k = ", header.k, "; both must be >= 1"));
  }
  const std::optional<int64_t> elements =
      CheckedMul(RoundUp(header.n, kTileRows), header.k);
  if (header.n > kMaxElements || header.k > kMaxElements ||
      !elements.has_value() || *elements > kMaxElements) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights: n = ", header.n, ", k = ", header.k,
                     " are beyond 2^50 elements"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> GroupShift(const WeightsHeader& header) {
  if (header.group_size >= header.k) return kWholeRowShift;
  switch (header.group_size) {
    case 32:
      return 0;
    case 64:
      return 1;
    case 128:
      return 2;
  }
  return absl::UnimplementedError(
      absl::StrCat("weights: group_size = ", header.group_size,
                   "; the cpu backend offers 32, 64, 128 and k = ", header.k));
}

absl::Status CheckQuantized(const WeightsHeader& header) {
  if (header.bits < 2 || header.bits > 5) {
    return absl::UnimplementedError(absl::StrCat(
        "weights: bits = ", header.bits, "; the cpu backend offers 2 to 5"));
  }
  if (header.group_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weights: group_size = ", header.group_size, "; it must be >= 1"));
  }
  return absl::OkStatus();
}

absl::Status FillQuantized(const WeightsHeader& header, PackedLayout& layout) {
  RETURN_IF_ERROR(CheckQuantized(header));
  ASSIGN_OR_RETURN(layout.group_shift, GroupShift(header));
  layout.groups = header.groups_per_row();
  layout.tile_code_bytes = layout.blocks * BlockBytes(header.bits);
  layout.tile_scale_bytes =
      layout.groups * kTileRows * SizeOf(header.scale_type);
  if (header.has_zeros) layout.tile_zero_bytes = layout.groups * kTileRows;
  return absl::OkStatus();
}

absl::Status FillDense(const WeightsHeader& header, PackedLayout& layout) {
  if (SizeOf(header.dense_type) != 2) {
    return absl::UnimplementedError(
        absl::StrCat("weights: dense type ", Name(header.dense_type),
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

}  // namespace

absl::StatusOr<PackedLayout> LayoutOf(const WeightsHeader& header) {
  RETURN_IF_ERROR(CheckShape(header));
  PackedLayout layout;
  layout.tiles = CeilDiv(header.n, kTileRows);
  layout.blocks = CeilDiv(header.k, kBlockElements);
  if (header.kind == WeightsHeader::Kind::kDense) {
    RETURN_IF_ERROR(FillDense(header, layout));
  } else {
    RETURN_IF_ERROR(FillQuantized(header, layout));
  }
  layout.codes_offset = Take(layout.tiles * layout.tile_code_bytes, layout);
  layout.scales_offset = Take(layout.tiles * layout.tile_scale_bytes, layout);
  layout.zeros_offset = Take(layout.tiles * layout.tile_zero_bytes, layout);
  layout.bias_offset = Take(header.bias.empty() ? 0 : header.n * 4, layout);
  layout.permutation_offset =
      Take(header.permutation.empty() ? 0 : header.k * 4, layout);
  return layout;
}

}  // namespace qgemm
