// SPDX-License-Identifier: Apache-2.0
//
// Requests that share launches first; then each other one by itself.

#include "kernels/cuda/plan/launch_plan.h"

#include <algorithm>

#include "base/host_device.h"
#include "kernels/cuda/plan/a32_plan.h"
#include "kernels/cuda/plan/w4a8_plan.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kAlignment = 256;
// Scratch of a group of launches, unless one launch needs more.
constexpr int64_t kGroupBytes = int64_t{384} << 20;
// Dequantizing a layer costs as much as multiplying some 300 rows: at 4096
// rows that is 7 %.
constexpr int64_t kMaxOwnRows = 4096;

int64_t RowBytes(const BatchShape& shape) {
  return shape.a_row_bytes + shape.rounded_row_bytes +
         shape.prepared_row_bytes + shape.c_row_bytes;
}

// Rows of a shared launch, at most.
int64_t MaxSharedLaunchRows(KernelPath path) {
  switch (path) {
    case KernelPath::kCublas:
      return kDecodeBlockM;
    case KernelPath::kW4A8:
      return kMaxW4A8M;
    case KernelPath::kA32:
      return kMaxA32M;
    default:
      return kMaxDecodeM;
  }
}

// Takes room for `row_bytes` a row at `end`, and returns where it starts.
int64_t Take(int64_t rows, int64_t row_bytes, int64_t& end) {
  const int64_t offset = end;
  end += RoundUp(rows * row_bytes, kAlignment);
  return offset;
}

}  // namespace

int64_t MaxOwnLaunchRows(const BatchShape& shape) {
  const int64_t fitting = kGroupBytes / std::max<int64_t>(1, RowBytes(shape));
  return std::clamp(fitting / kPaddedRows * kPaddedRows, kPaddedRows,
                    kMaxOwnRows);
}

void LaunchPlan::Make(absl::Span<const RowSegment> segments,
                      const BatchShape& shape,
                      absl::FunctionRef<KernelPath(int64_t rows)> choose) {
  launches_.clear();
  CutShared(segments, shape);
  CutOwn(segments, shape, choose);
  PlaceBuffers(shape);
}

void LaunchPlan::CutShared(absl::Span<const RowSegment> segments,
                           const BatchShape& shape) {
  const bool pads = shape.shared_path != KernelPath::kDecode;
  const int64_t most = MaxSharedLaunchRows(shape.shared_path);
  PlannedLaunch launch;
  const auto finish = [&] {
    if (launch.rows == 0) return;
    launch.path = shape.shared_path;
    launch.shared = true;
    launch.padded_rows =
        pads ? RoundUp(launch.rows, int64_t{kDecodeBlockM}) : launch.rows;
    launches_.push_back(launch);
    launch = PlannedLaunch();
  };
  for (size_t i = 0; i < segments.size(); ++i) {
    const int64_t rows = segments[i].rows;
    if (rows > shape.max_shared_rows) continue;
    for (int64_t row = 0; row < rows;) {
      if (launch.rows == 0) {
        launch.segment = static_cast<int64_t>(i);
        launch.row = row;
      }
      const int64_t taken = std::min(rows - row, most - launch.rows);
      launch.rows += taken;
      row += taken;
      if (launch.rows == most) finish();
    }
  }
  finish();
}

void LaunchPlan::CutOwn(absl::Span<const RowSegment> segments,
                        const BatchShape& shape,
                        absl::FunctionRef<KernelPath(int64_t rows)> choose) {
  const int64_t most =
      shape.max_own_rows > 0 ? shape.max_own_rows : MaxOwnLaunchRows(shape);
  for (size_t i = 0; i < segments.size(); ++i) {
    const int64_t rows = segments[i].rows;
    if (rows <= shape.max_shared_rows) continue;
    for (int64_t row = 0; row < rows; row += most) {
      PlannedLaunch launch;
      launch.segment = static_cast<int64_t>(i);
      launch.row = row;
      launch.rows = std::min(most, rows - row);
      launch.path = choose(launch.rows);
      launch.padded_rows = RoundUp(launch.rows, kPaddedRows);
      launches_.push_back(launch);
    }
  }
}

void LaunchPlan::PlaceBuffers(const BatchShape& shape) {
  groups_.clear();
  scratch_bytes_ = 0;
  int64_t end = 0;
  for (size_t i = 0; i < launches_.size(); ++i) {
    PlannedLaunch& launch = launches_[i];
    const int64_t bytes = launch.padded_rows * RowBytes(shape) + 4 * kAlignment;
    if (groups_.empty() || end + bytes > kGroupBytes) {
      groups_.push_back({static_cast<int64_t>(i), 0});
      end = 0;
    }
    ++groups_.back().count;
    launch.a_offset = Take(launch.padded_rows, shape.a_row_bytes, end);
    launch.rounded_offset =
        Take(launch.padded_rows, shape.rounded_row_bytes, end);
    launch.prepared_offset =
        Take(launch.padded_rows, shape.prepared_row_bytes, end);
    launch.c_offset = Take(launch.padded_rows, shape.c_row_bytes, end);
    scratch_bytes_ = std::max(scratch_bytes_, end);
  }
}

HostTransfer ChooseHostTransfer(const LaunchPlan& plan, const BatchShape& shape,
                                size_t segments) {
  if (plan.launches().size() != 1 || segments > kMaxMovedSegments ||
      shape.a_row_bytes % kMovedUnitBytes != 0 ||
      shape.c_row_bytes % kMovedUnitBytes != 0) {
    return HostTransfer::kDma;
  }
  const int64_t row_bytes = shape.a_row_bytes + shape.c_row_bytes;
  return plan.launches().front().rows * row_bytes <= kMaxMovedBytes
             ? HostTransfer::kKernels
             : HostTransfer::kDma;
}

}  // namespace qgemm::cuda
