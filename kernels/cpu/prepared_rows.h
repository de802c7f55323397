// SPDX-License-Identifier: Apache-2.0
//
// Activation rows of a batch as microkernels read them, in memory that is
// reused from batch to batch.

#ifndef QGEMM_KERNELS_CPU_PREPARED_ROWS_H_
#define QGEMM_KERNELS_CPU_PREPARED_ROWS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cpu/aligned_memory.h"
#include "kernels/cpu/microkernel.h"
#include "kernels/cpu/row_preparation.h"

namespace qgemm {

// Rows may be prepared on many threads at once; all else is for one thread.
class PreparedRows {
 public:
  // Rows of this shape that fit in about 64 MiB, at least kMaxMr.
  static int64_t RowsThatFit(const RowSource& source);

  // Makes room for `rows` rows, without new memory where the last batches
  // were as large. `source` must outlive the rows' use. RESOURCE_EXHAUSTED.
  absl::Status Reset(const RowSource& source, int64_t rows);

  // Prepares row `row` from `elements`.
  void Prepare(int64_t row, const uint8_t* elements);

  // Fills in the activation side of a microkernel's arguments.
  void SetArgs(int64_t first_row, TileArgs& args) const;

  // What the sums over a row are to be multiplied by.
  double factor(int64_t row) const { return factors_[row]; }

 private:
  struct Strides;
  static Strides StridesOf(const RowSource& source);

  const RowSource* source_ = nullptr;
  AlignedMemory memory_;
  int64_t blocks_ = 0;
  int64_t float_stride_ = 0;  // elements of fp32 and of Q8_1 rows
  int64_t block_stride_ = 0;  // elements of d8 and q8_sum rows
  float* floats_ = nullptr;
  float* scratch_ = nullptr;  // null without a permutation
  int8_t* q8_ = nullptr;      // null but in mode A8
  float* d8_ = nullptr;
  int32_t* q8_sum_ = nullptr;
  double* factors_ = nullptr;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_CPU_PREPARED_ROWS_H_
