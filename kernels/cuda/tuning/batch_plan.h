// SPDX-License-Identifier: Apache-2.0
//
// How a batch is cut into launches: which rows go to which family, and where
// their operands stand in a GPU's scratch memory. Pure. How a segment of many
// rows is cut depends on that segment alone, so that its results do too.

#ifndef QGEMM_KERNELS_CUDA_TUNING_BATCH_PLAN_H_
#define QGEMM_KERNELS_CUDA_TUNING_BATCH_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/cuda/tuning/tuning.h"
#include "kernels/matrix/backend.h"

namespace qgemm::cuda {

// The families of kernels by number of rows. Of kLarge rows some go to the wide
// family's kernels, others to cuBLASLt (large_gemm.h).
enum class Family : uint8_t {
  kSmall,  // rows of any short segments, up to kMaxSmallLaunchRows a launch
  kLarge,  // rows of one segment
};

// What of the chooser's own is left to it.
enum class FamilyChoice : uint8_t {
  kByRows,
  kAlwaysSmall,
  kAlwaysWide,  // where it multiplies the layer, else kAlwaysLarge
  kAlwaysLarge,
};

// "auto", "small", "wide" or "large". INVALID_ARGUMENT: anything else.
absl::StatusOr<FamilyChoice> ParseFamilyChoice(absl::string_view kernel);

// What the chooser goes by, beside the layer and a segment's rows.
struct FamilyPolicy {
  FamilyChoice choice = FamilyChoice::kByRows;
  Tuning tuning = DefaultTuning();
};

// Rows of a segment that the small family is made for, and of a small launch
// that is padded.
inline constexpr int64_t kMaxSmallRows = 64;
// Rows of any other small launch, at most: each kMaxSmallRows of them have
// blocks of threads of their own, which go side by side where one leaves
// multiprocessors free.
inline constexpr int64_t kMaxSmallLaunchRows = 256;
// Rows of a launch that is padded are a multiple of this.
inline constexpr int64_t kPaddedRows = 64;

// What a plan needs to know of a layer and a signature. A row passes through
// up to four buffers; one of no bytes is left out.
struct BatchShape {
  int64_t a_row_bytes = 0;         // as it comes
  int64_t rounded_row_bytes = 0;   // after a rounding of its own
  int64_t prepared_row_bytes = 0;  // as kernels read it
  int64_t c_row_bytes = 0;
  // Small launches are padded to kMaxSmallRows as well.
  bool pads_small = false;
  // Of the layer: segments of more rows go to the large family.
  int64_t max_small_segment = kMaxSmallRows;
};

// One launch. A small one takes `rows` rows of the segments that are small,
// in order, from row `row` of segment `segment` on.
struct Piece {
  Family family = Family::kSmall;
  int64_t segment = 0;
  int64_t row = 0;
  int64_t rows = 0;
  int64_t padded_rows = 0;  // that scratch has room for
  // Where its buffers start in scratch, in bytes; multiples of 256.
  int64_t a_offset = 0;
  int64_t rounded_offset = 0;
  int64_t prepared_offset = 0;
  int64_t c_offset = 0;
};

// Pieces [first, first + count), which stand in scratch at one time.
struct Wave {
  int64_t first = 0;
  int64_t count = 0;
};

// What a layer's segments are told apart by.
struct ChosenLayer {
  int bits = 0;          // of a code, 2 to 5; 0 if it has no small family
  int64_t elements = 0;  // n * k
  // Rows up to which the small family is expected to be faster than the wide
  // one, a multiple of kMaxSmallRows; 0 where there is no wide one.
  int64_t faster_than_wide = 0;
};

// Rows of the longest segment that goes to the small family. 0: none does.
int64_t MaxSmallSegment(const FamilyPolicy& policy, const ChosenLayer& layer);

inline Family FamilyOf(int64_t segment_rows, int64_t max_small_segment) {
  return segment_rows <= max_small_segment ? Family::kSmall : Family::kLarge;
}

// Rows of a large launch, at most; a multiple of kPaddedRows.
int64_t MaxLargeRows(const BatchShape& shape);

// Kept and made again for each batch, so that it allocates only for more
// pieces than ever before.
class BatchPlan {
 public:
  void Make(absl::Span<const RowSegment> segments, const BatchShape& shape);

  absl::Span<const Piece> pieces() const { return pieces_; }
  absl::Span<const Wave> waves() const { return waves_; }
  int64_t scratch_bytes() const { return scratch_bytes_; }

 private:
  void CutSmall(absl::Span<const RowSegment> segments, const BatchShape& shape);
  void CutLarge(absl::Span<const RowSegment> segments, const BatchShape& shape);
  void Place(const BatchShape& shape);

  std::vector<Piece> pieces_;
  std::vector<Wave> waves_;
  int64_t scratch_bytes_ = 0;
};

// Rows of one segment that belong to a piece.
struct Slice {
  int64_t segment;
  int64_t row;           // in the segment
  int64_t rows;          // at least 1
  int64_t row_in_piece;  // where they stand
};

// Calls `visit` with each slice of `piece`, which a plan made of these
// segments with that BatchShape::max_small_segment, until it returns a status
// that is not OK, which is returned.
template <typename Visitor>
absl::Status ForEachSlice(absl::Span<const RowSegment> segments,
                          int64_t max_small_segment, const Piece& piece,
                          Visitor visit) {
  Slice slice = {piece.segment, piece.row, 0, 0};
  while (slice.row_in_piece < piece.rows) {
    const int64_t segment_rows = segments[slice.segment].rows;
    const int64_t left = segment_rows - slice.row;
    const int64_t wanted = piece.rows - slice.row_in_piece;
    slice.rows = left < wanted ? left : wanted;
    if (FamilyOf(segment_rows, max_small_segment) == piece.family) {
      const absl::Status status = visit(slice);
      if (!status.ok()) return status;
      slice.row_in_piece += slice.rows;
    }
    ++slice.segment;
    slice.row = 0;
  }
  return absl::OkStatus();
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_TUNING_BATCH_PLAN_H_
