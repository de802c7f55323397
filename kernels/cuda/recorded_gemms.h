// SPDX-License-Identifier: Apache-2.0
//
// Batches of few rows of one layer as CUDA graphs: rows in, the multiplication,
// rows out, started by one call. Three starts take the host longer than the GPU
// has to do, and one kernel waits for the start of the next.

#ifndef QGEMM_KERNELS_CUDA_RECORDED_GEMMS_H_
#define QGEMM_KERNELS_CUDA_RECORDED_GEMMS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/batch_end.h"
#include "kernels/cuda/cublas_gemm.h"
#include "kernels/cuda/gemm_launcher.h"
#include "kernels/cuda/plan/launch_plan.h"
#include "kernels/cuda/plan/recording_cache.h"
#include "kernels/cuda/plan/recurring_places.h"
#include "kernels/cuda/row_tables.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/cuda/runtime/graph.h"
#include "kernels/matrix/backend.h"

namespace qgemm::cuda {

// Recordings of one stream. Used by one thread at a time, while none of their
// batches is under way.
class RecordedGemms {
 public:
  // Layers, numbers of rows and places that are counted or recorded. A graph of
  // three nodes holds some 20 KiB.
  static constexpr size_t kMax = 512;
  // Batches of a kind before it is recorded, which takes as long as some ten.
  static constexpr int kBatchesBefore = 8;

  // All must outlive it.
  RecordedGemms(cudaStream_t stream, BatchEnd* end,
                StreamScratch* stream_scratch)
      : stream_(stream), end_(*end), stream_scratch_(*stream_scratch) {}

  // Enqueues the batch, of which `launch` is the whole plan and whose rows
  // kernels can move, and returns true; false, and nothing is enqueued, if it
  // is not to be recorded, or not yet. In steady state it neither blocks nor
  // allocates. Errors: RESOURCE_EXHAUSTED.
  absl::StatusOr<bool> Enqueue(const GemmBatch& batch, const GemmJob& job,
                               const PlannedLaunch& launch,
                               const LaunchEnvironment& environment);

 private:
  // Weights, mode, types of A and C, rounding, rows that there is room for, and
  // where the one request of the batch lies; none: where a table says.
  using Key = std::tuple<const CudaWeights*, ComputeMode, FloatType, FloatType,
                         FloatType, int64_t, RequestPlace>;
  struct Entry {
    // Expired: the address is another layer's, or nobody's.
    std::weak_ptr<const CudaWeights> weights;
    int batches = 0;
    std::optional<Graph> graph;  // after kBatchesBefore
    RecurringPlaces places;      // then, of batches of one request
  };

  // Null: there is none, or one of weights that have gone.
  Entry* Find(const Key& key);
  Entry* Add(const Key& key, const GemmJob& job);
  // Makes sure of an entry for the batches of `key` that lie at `place`; false
  // if there is no room.
  bool MakePlaced(const RequestPlace& place, const GemmJob& job, Key key);
  absl::StatusOr<Graph> Record(const GemmJob& job, int64_t room,
                               const RequestPlace& place,
                               const LaunchEnvironment& environment);
  // Makes sure of memory for the plan, and of the table.
  absl::Status Reserve(const LaunchPlan& plan);
  // Tells the kernels where the host has the batch's rows; those up to `room`
  // that it lacks are nobody's.
  void FillTable(const GemmBatch& batch, int64_t room);
  absl::Status EnqueueKernels(const GemmJob& job, const PlannedLaunch& launch,
                              const RequestPlace& place,
                              const LaunchEnvironment& environment);

  const cudaStream_t stream_;
  BatchEnd& end_;
  StreamScratch& stream_scratch_;
  LaunchPlan plan_;
  std::vector<RowSegment> rows_;  // of a recording
  DeviceBuffer scratch_;
  RowTables tables_;
  RecordingCache<Key, Entry> entries_{kMax};
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_RECORDED_GEMMS_H_
