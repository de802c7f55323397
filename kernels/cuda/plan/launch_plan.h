// SPDX-License-Identifier: Apache-2.0
//
// Cuts a batch into launches: which rows go to which kernel, where operands
// stand in a GPU's scratch memory, and what moves rows from and to the host.
// Pure. The cut of a request of many rows depends on that request alone, so
// that its results do too.

#ifndef QGEMM_KERNELS_CUDA_PLAN_LAUNCH_PLAN_H_
#define QGEMM_KERNELS_CUDA_PLAN_LAUNCH_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cuda/plan/kernel_path.h"
#include "kernels/matrix/backend.h"

namespace qgemm::cuda {

// Rows of a launch that is padded are a multiple of this.
inline constexpr int64_t kPaddedRows = 64;

// Facts of a layer and a signature that a plan depends on. A row passes through
// up to four buffers; one of no bytes is left out.
struct BatchShape {
  int64_t a_row_bytes = 0;         // as it comes
  int64_t rounded_row_bytes = 0;   // after a rounding of its own
  int64_t prepared_row_bytes = 0;  // as kernels read it
  int64_t c_row_bytes = 0;
  // Rows of the longest request that shares launches (MaxSharedRows).
  int64_t max_shared_rows = kDecodeBlockM;
  // Rows of a launch that is not shared, at most; 0: as many as fit in a
  // group's scratch.
  int64_t max_own_rows = 0;
  // Path of shared launches: kDecode; kW4A8 or kA32, whose buffers have room
  // for a multiple of kDecodeBlockM rows; or kCublas, whose launches are padded
  // to so many.
  KernelPath shared_path = KernelPath::kDecode;
};

// A shared launch takes `rows` rows of the requests that share launches, in
// order, from row `row` of segment `segment` on; another one rows of that
// segment alone.
struct PlannedLaunch {
  KernelPath path = KernelPath::kDecode;
  bool shared = false;
  int64_t segment = 0;
  int64_t row = 0;
  int64_t rows = 0;
  int64_t padded_rows = 0;  // that scratch has room for
  // Offsets of its buffers in scratch, in bytes; multiples of 256.
  int64_t a_offset = 0;
  int64_t rounded_offset = 0;
  int64_t prepared_offset = 0;
  int64_t c_offset = 0;
};

// Launches [first, first + count), whose buffers stand in scratch at one time.
struct LaunchGroup {
  int64_t first = 0;
  int64_t count = 0;
};

// BatchShape::max_own_rows, a multiple of kPaddedRows, if it is 0.
int64_t MaxOwnLaunchRows(const BatchShape& shape);

// Kept and made again for each batch, so that it allocates only for more
// launches than ever before.
class LaunchPlan {
 public:
  // `choose(rows)` is the path of a launch of so many rows that is not shared
  // (ChooseManyRowsPath).
  void Make(absl::Span<const RowSegment> segments, const BatchShape& shape,
            absl::FunctionRef<KernelPath(int64_t rows)> choose);

  absl::Span<const PlannedLaunch> launches() const { return launches_; }
  absl::Span<const LaunchGroup> groups() const { return groups_; }
  int64_t scratch_bytes() const { return scratch_bytes_; }

 private:
  void CutShared(absl::Span<const RowSegment> segments,
                 const BatchShape& shape);
  void CutOwn(absl::Span<const RowSegment> segments, const BatchShape& shape,
              absl::FunctionRef<KernelPath(int64_t rows)> choose);
  void PlaceBuffers(const BatchShape& shape);

  std::vector<PlannedLaunch> launches_;
  std::vector<LaunchGroup> groups_;
  int64_t scratch_bytes_ = 0;
};

// Rows of one segment that belong to a launch.
struct Slice {
  int64_t segment;
  int64_t row;            // in the segment
  int64_t rows;           // at least 1
  int64_t row_in_launch;  // where they stand
};

// Calls `visit` with each slice of `launch`, which a plan made of these
// segments with that BatchShape::max_shared_rows, until it returns a status
// that is not OK, which is returned.
template <typename Visitor>
absl::Status ForEachSlice(absl::Span<const RowSegment> segments,
                          int64_t max_shared_rows, const PlannedLaunch& launch,
                          Visitor visit) {
  Slice slice = {launch.segment, launch.row, 0, 0};
  while (slice.row_in_launch < launch.rows) {
    const int64_t segment_rows = segments[slice.segment].rows;
    const int64_t left = segment_rows - slice.row;
    const int64_t wanted = launch.rows - slice.row_in_launch;
    slice.rows = left < wanted ? left : wanted;
    if ((segment_rows <= max_shared_rows) == launch.shared) {
      const absl::Status status = visit(slice);
      if (!status.ok()) return status;
      slice.row_in_launch += slice.rows;
    }
    ++slice.segment;
    slice.row = 0;
  }
  return absl::OkStatus();
}

// Moves a batch's rows between the host and the GPU.
enum class HostTransfer : uint8_t {
  kKernels,  // kernels that read and write pinned host memory
  kDma,      // DMA copy engines, by cudaMemcpyAsync
};

// Requests of a batch that kernels move, at most: their addresses are kernel
// parameters.
inline constexpr size_t kMaxMovedSegments = 64;
// Bytes of a batch's activations and results together that kernels move, at
// most. DMA copy engines take 2 us a request and wake the host later, but leave
// all SMs to the multiplication. On an H100, 4096x4096, p50 by kernels and by
// DMA copy engines in us: 1 request of 1 row 22 and 36, 64 of them 47 and 331;
// 8192x8192, 1 request of 64 rows 75 and 87.
inline constexpr int64_t kMaxMovedBytes = int64_t{16} << 20;
// Bytes that a kernel's thread loads at once.
inline constexpr int64_t kMovedUnitBytes = 16;

// Kernels move a batch of so many segments if it is one launch of few bytes.
HostTransfer ChooseHostTransfer(const LaunchPlan& plan, const BatchShape& shape,
                                size_t segments);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_LAUNCH_PLAN_H_
