// SPDX-License-Identifier: Apache-2.0
//
// Activation rows of a batch as microkernels read them, in memory that is
// reused from batch to batch.

#ifndef QGEMM_KERNELS_CPU_PREPARED_ROWS_H_
#define QGEMM_KERNELS_CPU_PREPARED_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cpu/aligned_memory.h"
#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/row_conversion.h"
#include "kernels/cpu/row_strips.h"

namespace qgemm::cpu {

// Groups may be prepared on many threads at once; all else is for one thread.
class PreparedRows {
 public:
  // `split_row` makes the parts that strips read; null if none does.
  explicit PreparedRows(SplitRowFunction split_row) : split_row_(split_row) {}

  // Rows of this shape that fit in about 64 MiB, at least 64.
  static int64_t RowsThatFit(const RowSource& source);

  // Makes room for the rows of `strips`, without new memory where the last
  // batches were as large. `source` must outlive the rows' use. Parts and
  // packed rows are ordered for codes of `bits`, 0 for dense weights.
  // RESOURCE_EXHAUSTED.
  absl::Status Reset(const RowSource& source, absl::Span<const RowStrip> strips,
                     int bits);

  // Consecutive rows that lie between each other once prepared, or one row.
  struct Group {
    int64_t first;
    int64_t rows;
  };
  absl::Span<const Group> groups() const { return groups_; }

  // Prepares a group's rows; elements(row) are those of one.
  void Prepare(const Group& group,
               absl::FunctionRef<const uint8_t*(int64_t row)> elements);

  // Fills in the activation side of a microkernel's arguments: for a strip, or
  // for one row and a microkernel that reads it as it is.
  void SetArgs(const RowStrip& strip, TileArgs& args) const;
  void SetArgsOfRow(int64_t row, TileArgs& args) const;

  // The factor of sums over a row.
  double factor(int64_t row) const { return factors_[row]; }

  // True if a row that is read in parts has none because it is not finite.
  bool lacks_parts(int64_t row) const { return lacks_parts_[row] != 0; }

 private:
  struct Strides;
  // Destination of a row's parts, or of the row packed; null for a row without.
  struct RowPlace {
    uint16_t* high = nullptr;  // of mode A8 the integers, two by two
    uint16_t* low = nullptr;
    float* d8 = nullptr;  // of the first block, among the parts
    int64_t part_rows = 0;
    int64_t part_block = 0;
    float* packed = nullptr;
    int64_t stride = 0;  // from one packed element to the next
  };

  static Strides StridesOf(const RowSource& source);
  void PlaceRows(absl::Span<const RowStrip> strips);
  uint8_t* PlaceParts(const RowStrip& strip, uint8_t* next);
  uint8_t* PlacePacked(const RowStrip& strip, uint8_t* next);
  void OrderElements(int bits);
  void PrepareOne(int64_t row, const uint8_t* elements);
  void Split(const RowPlace& place, const float* floats) const;
  void CopyQuantized(const RowPlace& place, int64_t row) const;
  void Pack(const Group& group) const;

  const SplitRowFunction split_row_;
  const RowSource* source_ = nullptr;
  AlignedMemory memory_;
  int64_t blocks_ = 0;
  int64_t float_stride_ = 0;             // elements of fp32 and of Q8_1 rows
  int64_t block_stride_ = 0;             // elements of d8 and q8_sum rows
  uint16_t pick_[kBlockElements] = {};   // RowParts::pick
  uint16_t order_[kBlockElements] = {};  // of a block's elements in its halves
  std::vector<RowPlace> places_;         // of each row
  std::vector<Group> groups_;
  std::vector<uint8_t> lacks_parts_;  // of each row
  float* floats_ = nullptr;
  float* scratch_ = nullptr;  // null without a permutation
  int8_t* q8_ = nullptr;      // null but in mode A8
  float* d8_ = nullptr;
  int32_t* q8_sum_ = nullptr;
  double* factors_ = nullptr;
};

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_PREPARED_ROWS_H_
