// SPDX-License-Identifier: Apache-2.0
//
// Small segments first, merged; then each large one by itself.

#include "kernels/cuda/tuning/batch_plan.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kAlignment = 256;
// Scratch that a wave takes, unless one piece needs more.
constexpr int64_t kWaveBytes = int64_t{384} << 20;
// Dequantizing a layer costs as much as multiplying some 300 rows: at 4096
// rows that is 7 %.
constexpr int64_t kMaxLargeRows = 4096;

int64_t RowBytes(const BatchShape& shape) {
  return shape.a_row_bytes + shape.rounded_row_bytes +
         shape.prepared_row_bytes + shape.c_row_bytes;
}

// Takes room for `row_bytes` a row at `end`, and returns where it starts.
int64_t Take(int64_t rows, int64_t row_bytes, int64_t& end) {
  const int64_t offset = end;
  end += RoundUp(rows * row_bytes, kAlignment);
  return offset;
}

// A small layer is dequantized within the second-level cache, so that the large
// family costs it little. On an H100, kbit4, small family and dequantize+cuBLAS
// in us: 1024x4096 at M = 128 10.0 and 8.8; 4096x4096 at M = 128 23.4 and 24.8,
// at 256 44.8 and 32.8; 2048x10240 at 256 45.1 and 38.5; 4096x11008 73 and 81.
constexpr int64_t kTinyElements = int64_t{8} << 20;
constexpr int64_t kSmallElements = int64_t{32} << 20;

int64_t MostRowsOfSize(int64_t elements) {
  if (elements < kTinyElements) return kMaxSmallRows;
  if (elements < kSmallElements) return 2 * kMaxSmallRows;
  return std::numeric_limits<int64_t>::max();
}

}  // namespace

absl::StatusOr<FamilyChoice> ParseFamilyChoice(absl::string_view kernel) {
  if (kernel == "auto") return FamilyChoice::kByRows;
  if (kernel == "small") return FamilyChoice::kAlwaysSmall;
  if (kernel == "wide") return FamilyChoice::kAlwaysWide;
  if (kernel == "large") return FamilyChoice::kAlwaysLarge;
  return absl::InvalidArgumentError(
      absl::StrCat("cuda backend: kernel = \"", kernel,
                   "\"; legal: auto, small, wide, large"));
}

int64_t MaxSmallSegment(const FamilyPolicy& policy, const ChosenLayer& layer) {
  switch (policy.choice) {
    case FamilyChoice::kAlwaysSmall:
      return std::numeric_limits<int64_t>::max();
    case FamilyChoice::kAlwaysWide:
    case FamilyChoice::kAlwaysLarge:
      return 0;
    case FamilyChoice::kByRows:
      break;
  }
  // A layer that has no small family: its launches differ only in that a small
  // one merges segments.
  if (layer.bits == 0) return kMaxSmallRows;
  return std::min(policy.tuning.max_small_rows[layer.bits - 2],
                  layer.faster_than_wide > 0 ? layer.faster_than_wide
                                             : MostRowsOfSize(layer.elements));
}

int64_t MaxLargeRows(const BatchShape& shape) {
  const int64_t fitting = kWaveBytes / std::max<int64_t>(1, RowBytes(shape));
  return std::clamp(fitting / kPaddedRows * kPaddedRows, kPaddedRows,
                    kMaxLargeRows);
}

void BatchPlan::Make(absl::Span<const RowSegment> segments,
                     const BatchShape& shape) {
  pieces_.clear();
  CutSmall(segments, shape);
  CutLarge(segments, shape);
  Place(shape);
}

void BatchPlan::CutSmall(absl::Span<const RowSegment> segments,
                         const BatchShape& shape) {
  Piece piece;
  const int64_t most = shape.pads_small ? kMaxSmallRows : kMaxSmallLaunchRows;
  const auto finish = [&] {
    if (piece.rows == 0) return;
    piece.padded_rows = shape.pads_small ? kMaxSmallRows : piece.rows;
    pieces_.push_back(piece);
    piece = Piece();
  };
  for (size_t i = 0; i < segments.size(); ++i) {
    const int64_t rows = segments[i].rows;
    if (FamilyOf(rows, shape.max_small_segment) != Family::kSmall) continue;
    for (int64_t row = 0; row < rows;) {
      if (piece.rows == 0) {
        piece.segment = static_cast<int64_t>(i);
        piece.row = row;
      }
      const int64_t taken = std::min(rows - row, most - piece.rows);
      piece.rows += taken;
      row += taken;
      if (piece.rows == most) finish();
    }
  }
  finish();
}

void BatchPlan::CutLarge(absl::Span<const RowSegment> segments,
                         const BatchShape& shape) {
  const int64_t most = MaxLargeRows(shape);
  for (size_t i = 0; i < segments.size(); ++i) {
    const int64_t rows = segments[i].rows;
    if (FamilyOf(rows, shape.max_small_segment) != Family::kLarge) continue;
    for (int64_t row = 0; row < rows; row += most) {
      Piece piece;
      piece.family = Family::kLarge;
      piece.segment = static_cast<int64_t>(i);
      piece.row = row;
      piece.rows = std::min(most, rows - row);
      piece.padded_rows = RoundUp(piece.rows, kPaddedRows);
      pieces_.push_back(piece);
    }
  }
}

void BatchPlan::Place(const BatchShape& shape) {
  waves_.clear();
  scratch_bytes_ = 0;
  int64_t end = 0;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    Piece& piece = pieces_[i];
    const int64_t bytes = piece.padded_rows * RowBytes(shape) + 4 * kAlignment;
    if (waves_.empty() || end + bytes > kWaveBytes) {
      waves_.push_back({static_cast<int64_t>(i), 0});
      end = 0;
    }
    ++waves_.back().count;
    piece.a_offset = Take(piece.padded_rows, shape.a_row_bytes, end);
    piece.rounded_offset =
        Take(piece.padded_rows, shape.rounded_row_bytes, end);
    piece.prepared_offset =
        Take(piece.padded_rows, shape.prepared_row_bytes, end);
    piece.c_offset = Take(piece.padded_rows, shape.c_row_bytes, end);
    scratch_bytes_ = std::max(scratch_bytes_, end);
  }
}

}  // namespace qgemm::cuda
