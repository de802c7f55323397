// SPDX-License-Identifier: Apache-2.0
//
// Enqueues batches of programs on one stream, in device memory of its own: rows
// in, step by step, rows out, with nothing on the host between. Batches of few
// rows are recorded into CUDA graphs, which are launched again.

#ifndef QGEMM_KERNELS_CUDA_PROGRAM_LAUNCHER_H_
#define QGEMM_KERNELS_CUDA_PROGRAM_LAUNCHER_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/wait_estimate.h"
#include "kernels/cuda/batch_end.h"
#include "kernels/cuda/cublas_gemm.h"
#include "kernels/cuda/cuda_program.h"
#include "kernels/cuda/gemm_launcher.h"
#include "kernels/cuda/launch/decode_group.h"
#include "kernels/cuda/launch/program_rows.h"
#include "kernels/cuda/launch/row_ops.h"
#include "kernels/cuda/plan/launch_plan.h"
#include "kernels/cuda/plan/program_plan.h"
#include "kernels/cuda/plan/recording_cache.h"
#include "kernels/cuda/plan/recurring_places.h"
#include "kernels/cuda/program_operands.h"
#include "kernels/cuda/row_tables.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/cuda/runtime/graph.h"
#include "kernels/programs/program_runner.h"

namespace qgemm::cuda {

// Means of a launcher; all must outlive it.
struct ProgramLauncherParts {
  cudaStream_t stream = nullptr;
  // Recorded batches run here, those of other launchers too: one after the
  // other. Blocks that wait for their rows would hold SMs that
  // another batch's next kernel needs.
  cudaStream_t recorded_stream = nullptr;
  BatchEnd* end = nullptr;
  StreamScratch* stream_scratch = nullptr;
};

// Runs one batch at a time; used by one thread at a time.
class ProgramLauncher {
 public:
  explicit ProgramLauncher(const ProgramLauncherParts& parts)
      : stream_(parts.stream),
        recorded_stream_(parts.recorded_stream),
        end_(*parts.end),
        stream_scratch_(*parts.stream_scratch) {}

  // Enqueues a batch that CheckProgramBatch passes, of a CudaProgram. In steady
  // state it neither blocks nor allocates. Errors: RESOURCE_EXHAUSTED; work
  // that was enqueued before one still runs.
  absl::Status Enqueue(const ProgramBatch& batch,
                       const LaunchEnvironment& environment);

 private:
  // A model of 80 layers has 81 programs; each is recorded for up to eight
  // numbers of rows, and a walk's with their places while there is room. A
  // graph of 20 nodes holds some 50 KiB of the process's heap.
  static constexpr size_t kMaxRecordings = 1024;
  static constexpr size_t kMaxPlaced = 192;

  // A CudaProgram::serial(), a RecordedRows(), and where the one request of the
  // batch lies; none: where a table says.
  using RecordedKey = std::tuple<uint64_t, int64_t, RequestPlace>;
  struct RecordedBatch {
    Graph graph;
    WaitEstimate wait;
    RecurringPlaces places;  // of such batches of one request
  };

  // Rows of a batch that are on the device together.
  struct Pass {
    const ProgramBatch& batch;
    const LaunchEnvironment& environment;
    absl::Span<const RowPiece> pieces;
    int64_t rows;
  };

  // Pieces of a pass, or rows of a recording, as plans of launches see them.
  void SetSegments(absl::Span<const RowPiece> pieces);
  void SetRows(int64_t rows);
  // Device memory for the values and the GEMMs of so many rows.
  absl::Status ReserveFor(int64_t rows, const LaunchEnvironment& environment);
  // Tells the kernels where the host has the rows of a pass; those up to `rows`
  // that the pass lacks are nobody's.
  absl::Status FillTable(const Pass& pass, int64_t rows);

  absl::Status EnqueueRecorded(const Pass& pass, int64_t rows);
  // A recording of so many rows of the program, with what it needs reserved.
  absl::StatusOr<Graph> Record(const LaunchEnvironment& environment,
                               int64_t rows, const RequestPlace& place);
  // The place of the pass's one request if it has a recording, or may have one.
  RequestPlace RecordedPlaceOf(const Pass& pass, const RecordedKey& key);
  // The rows lie at `place`, or where the table says.
  absl::Status EnqueueByKernels(const LaunchEnvironment& environment,
                                int64_t rows, const RequestPlace& place);
  absl::Status EnqueueByCopies(const Pass& pass);
  absl::Status Copy(const Pass& pass, ValuePlace::Memory memory);

  absl::Status EnqueueSteps(const LaunchEnvironment& environment, int64_t rows);
  absl::Status EnqueueFusedSteps(const LaunchEnvironment& environment,
                                 int64_t rows, const RequestPlace& place);
  absl::Status EnqueueGroup(int64_t step, const LaunchEnvironment& environment,
                            int64_t rows, const RequestPlace& place);
  // True if the first launch begins when its activations are there, whatever
  // else is to come. Rows of many requests come from as many places, which
  // takes the longer the fewer are asked for together.
  bool CountsFirstInput(int64_t rows, const RequestPlace& place) const;
  // Lets the group's launch count outputs that are there early.
  void CountOutputs(int64_t step, const LaunchEnvironment& environment,
                    DecodeGroupOperands& group);
  void PlanGemm(int64_t op, const LaunchEnvironment& environment);
  absl::Status EnqueueGemmOp(int64_t op, const LaunchEnvironment& environment);
  // Ops [first, first + count).
  absl::Status EnqueueRowOps(int64_t first, int64_t count,
                             const LaunchEnvironment& environment,
                             int64_t rows);
  ProgramOperands operands() const {
    return {*program_, places_, values_.data()};
  }
  // The inputs or the outputs, in their order.
  template <typename Visitor>
  void ForEachMoved(ValuePlace::Memory memory, const Visitor& visit) const;
  MovedValues Moved(ValuePlace::Memory memory) const;
  MovedValues MovedOutputs() const;

  const cudaStream_t stream_;
  const cudaStream_t recorded_stream_;
  BatchEnd& end_;
  StreamScratch& stream_scratch_;

  const CudaProgram* program_ = nullptr;  // of the batch
  const ValueLayout* layout_ = nullptr;   // of the program, as the batch runs
  RowPasses passes_;
  ValueMemory places_;
  DeviceBuffer values_;
  LaunchPlan plan_;
  std::vector<RowSegment> segments_;
  std::vector<int64_t> segment_rows_;  // where each begins
  DeviceBuffer gemm_scratch_;
  RowTables tables_;
  DeviceBuffer counters_;  // of recorded batches' groups
  // By output: counters of those that are there before the last step ends.
  std::vector<GroupCount> made_;
  using Recordings = RecordingCache<RecordedKey, RecordedBatch>;
  Recordings recorded_{kMaxRecordings};  // without a place
  Recordings placed_{kMaxPlaced};        // with one
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PROGRAM_LAUNCHER_H_
