// SPDX-License-Identifier: Apache-2.0
//
// Cuts a batch of a program into what launches do: its ops into steps, its rows
// into passes, its values' device memory. Pure. The cut of a request of many
// rows depends on that request and the program alone, so that its results do
// too.

#ifndef QGEMM_KERNELS_CUDA_PLAN_PROGRAM_PLAN_H_
#define QGEMM_KERNELS_CUDA_PLAN_PROGRAM_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/programs/checked_program.h"
#include "kernels/programs/program_runner.h"
#include "kernels/programs/value_layout.h"

namespace qgemm::cuda {

// Ops [first_op, first_op + ops): one GEMM, or row-wise ops of one launch.
struct ProgramStep {
  int64_t first_op = 0;
  int64_t ops = 0;
  bool is_gemm = false;
};

// In order; a step of row-wise ops has at most `max_row_ops`.
std::vector<ProgramStep> CutIntoSteps(absl::Span<const ProgramOp> ops,
                                      int64_t max_row_ops);

// The step of each op.
std::vector<int64_t> StepOfEachOp(absl::Span<const ProgramStep> steps);

// Rows of one segment that run together.
struct RowPiece {
  int64_t segment = 0;
  int64_t number = 0;  // of its first row, in the request
  int64_t rows = 0;
  int64_t row = 0;  // of the pass, where it stands
};

// Pieces [first, first + count), whose values are in device memory at one time.
struct RowPass {
  int64_t first = 0;
  int64_t count = 0;
  int64_t rows = 0;
};

// Kept and made again for each batch, so that it allocates only for more pieces
// than ever before.
class RowPasses {
 public:
  // A segment of more than `max_rows` rows, at least 1, is cut by itself;
  // pieces stand in a pass in the order of their numbers of rows, so that those
  // whose launches others share are together at every op.
  void Make(absl::Span<const ProgramSegment> segments, int64_t max_rows);

  absl::Span<const RowPiece> pieces() const { return pieces_; }
  absl::Span<const RowPass> passes() const { return passes_; }

 private:
  void Add(RowPiece piece, int64_t max_rows);

  std::vector<int64_t> order_;
  std::vector<RowPiece> pieces_;
  std::vector<RowPass> passes_;
};

// Device memory for the values of up to `rows` rows of a program, constants
// left out.
struct ValueMemory {
  std::vector<int64_t> offsets;  // by value number
  int64_t bytes = 0;
};

// Bytes of a row of all values that are in memory at one time.
int64_t DeviceRowBytes(const CheckedProgram& program,
                       const ValueLayout& layout);

// Values are [rows, width] each without gaps, aligned to 64 bytes.
void PlaceValues(const CheckedProgram& program, const ValueLayout& layout,
                 int64_t rows, ValueMemory& memory);

// Rows that a recorded batch of `rows` rows has room for; 0 if there are more
// than recorded batches take.
int64_t RecordedRows(int64_t rows);
inline constexpr int64_t kMaxRecordedRows = 64;

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_PROGRAM_PLAN_H_
