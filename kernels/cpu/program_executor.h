// SPDX-License-Identifier: Apache-2.0
//
// Runs one batch of a program to its end, in tiles of rows: GEMM through the
// BatchRunner, the other ops by row_ops.h. Queues and completions are in
// cpu_backend.cc.

#ifndef QGEMM_KERNELS_CPU_PROGRAM_EXECUTOR_H_
#define QGEMM_KERNELS_CPU_PROGRAM_EXECUTOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/cpu/aligned_memory.h"
#include "kernels/cpu/batch_runner.h"
#include "kernels/cpu/cpu_program.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/programs/program_runner.h"

namespace qgemm::cpu {

// Used by one thread at a time, that of the runner. Inputs are read and outputs
// written where they lie; what is between stays in scratch, whose memory is
// reused from batch to batch unless it is large. In steady state it does not
// allocate.
class ProgramExecutor {
 public:
  static constexpr int64_t kScratchBytes = int64_t{64} << 20;
  // Scratch that stays for the next batch: 64 rows of a layer of 8B models take
  // 7 MB. A batch that needs more works far longer than its memory is made.
  static constexpr int64_t kKeptScratchBytes = int64_t{16} << 20;

  // A tile has as many rows as fit in `scratch_bytes`, at least one; the cut
  // changes no bit. `runner` must outlive the executor.
  explicit ProgramExecutor(BatchRunner* runner,
                           int64_t scratch_bytes = kScratchBytes)
      : runner_(*runner), scratch_limit_bytes_(scratch_bytes) {}

  // `batch` is one that CheckProgramBatch passes, its program a CpuProgram.
  // Returns the time of each op if the batch asks for them, else nothing.
  // RESOURCE_EXHAUSTED if there is no memory for a tile; rows before it are
  // computed then.
  absl::StatusOr<std::vector<absl::Duration>> Run(const ProgramBatch& batch);

  int64_t scratch_bytes() const { return scratch_.held_bytes(); }

 private:
  // A row of the tile: its segment and its number in the segment's request.
  struct TileRow {
    const ProgramSegment* segment;
    int64_t number;
  };

  absl::Status RunTiles(const ProgramBatch& batch);
  int64_t TileRows(const ProgramBatch& batch) const;
  absl::Status Reserve(int64_t scratch_bytes);
  absl::Status RunTile();
  // Runs op by op and adds to the times.
  absl::Status RunTimedTile();
  absl::Status RunGemm(int64_t op);
  void RunRowOps(int64_t begin, int64_t end);
  void RunRowOp(int64_t op);
  RowOpArgs ArgsOf(int64_t op, int64_t row) const;
  SourceRow SourceOf(ValueNumber number, int64_t row) const;
  const uint8_t* AddressOf(ValueNumber number, int64_t row) const;
  uint8_t* AddressOfResult(ValueNumber number, int64_t row) const;

  BatchRunner& runner_;
  const int64_t scratch_limit_bytes_;
  AlignedMemory scratch_;
  const CpuProgram* program_ = nullptr;  // of the batch
  std::vector<TileRow> tile_;
  std::vector<BatchRunner::Row> gemm_rows_;
  std::vector<absl::Duration> op_times_;  // of the batch; empty: not asked for
};

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_PROGRAM_EXECUTOR_H_
