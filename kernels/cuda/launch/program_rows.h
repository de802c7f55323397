// SPDX-License-Identifier: Apache-2.0
//
// Rows of a program's inputs and outputs between pinned host memory and values
// on the device, moved by kernels whose parameters do not change from batch to
// batch: where the host has the rows stands in a table, if it changes. The
// first kernel brings it to the device with the rows, since the GPU reads one
// address of the host a microsecond after the other.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_PROGRAM_ROWS_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_PROGRAM_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/launch/batch_stamps.h"

namespace qgemm::cuda {

// Values that a launch moves, at most.
inline constexpr int kMaxMovedValues = 16;
// Bytes of a row of each value, and addresses, are multiples of this.
inline constexpr int64_t kMovedValueAlignment = 4;

// One row of a batch: row `number` of a request of m rows, whose inputs and
// outputs start there on the host. Null pointers: a row that nobody asked for.
// A sector of memory, which the GPU reads at once.
struct alignas(32) HostRow {
  const uint8_t* inputs = nullptr;
  uint8_t* outputs = nullptr;
  int64_t m = 0;
  int64_t number = 0;
};

// Rows of a batch, at most.
inline constexpr int64_t kMaxTableRows = 1024;

// The rows of a batch.
struct RowTable {
  HostRow rows[kMaxTableRows];
};

// A value as the host has it, behind m rows of the values before it, and as the
// device has it: [rows, row_bytes] without gaps.
struct MovedValue {
  uint8_t* device = nullptr;
  int64_t row_bytes = 0;
  int64_t row_bytes_before = 0;
  // An output is there once so many blocks have counted, which may be
  // before the kernel before has ended. Null: then.
  const unsigned* made = nullptr;
  unsigned made_count = 0;
};

struct MovedValues {
  MovedValue values[kMaxMovedValues];
  int count = 0;
};

// Places that the last kernel of a batch writes to, and what it writes.
struct BatchEndArgs {
  BatchProgress* progress = nullptr;
  BatchStamps* stamps = nullptr;
};

// Places that the first kernel of a batch reads and writes to.
struct BatchBeginArgs {
  // Pinned; null: rows [0, m) of `request`, and no others, are the batch's.
  const RowTable* host_table = nullptr;
  HostRow request;
  RowTable* table = nullptr;     // on the device
  unsigned* counters = nullptr;  // that it sets to 0
  int counter_count = 0;
  BatchProgress* progress = nullptr;
  // Inputs that come before the others, which only then are asked for; the
  // progress counts their rows. 0: all come together.
  int first_inputs = 0;
};

// Brings the inputs of the first `rows` rows to the device, and where the host
// has them to the table there. Errors: cudaErrorInvalidValue.
cudaError_t LaunchGatherProgramRows(const MovedValues& inputs, int64_t rows,
                                    const BatchBeginArgs& begin,
                                    cudaStream_t stream);

// Takes the outputs of those rows to the host, then writes the stamps. Outputs
// with counters stand before the others, and go while the kernel before runs if
// it leaves SMs free: all blocks that they wait for have started. Errors:
// cudaErrorInvalidValue.
cudaError_t LaunchScatterProgramRows(const MovedValues& outputs, int64_t rows,
                                     const RowTable* table,
                                     const BatchEndArgs& end,
                                     cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_PROGRAM_ROWS_H_
