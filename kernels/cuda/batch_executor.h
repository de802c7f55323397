// SPDX-License-Identifier: Apache-2.0
//
// Runs one batch at a time on a stream of its own, in scratch memory of its
// own: moves rows in, prepares them, multiplies, moves results out. Rows of a
// small batch are moved by kernels, those of others by the copy engines
// (tuning/row_moves.h).

#ifndef QGEMM_KERNELS_CUDA_BATCH_EXECUTOR_H_
#define QGEMM_KERNELS_CUDA_BATCH_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/large_gemm.h"
#include "kernels/cuda/launch/host_rows.h"
#include "kernels/cuda/runtime/device_buffer.h"
#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/pinned_buffer.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/tuning/batch_plan.h"
#include "kernels/cuda/tuning/row_moves.h"
#include "kernels/matrix/backend.h"

namespace qgemm::cuda {

// Enqueue and Wait alternate; they may come from different threads.
class BatchExecutor {
 public:
  // On the calling thread's current device.
  static absl::StatusOr<std::unique_ptr<BatchExecutor>> Create();

  // Enqueues a batch whose weights are CudaWeights. `large` may be null if the
  // policy is kAlwaysSmall and the layer has a small family. In steady state it
  // neither blocks nor allocates. Wait must follow, on an error too.
  absl::Status Enqueue(const GemmBatch& batch, const ExecutionPolicy& policy,
                       LargeGemm* large);

  // Whether what was enqueued takes some 10 us but for its product: what Wait
  // is awake for.
  bool is_short() const { return by_kernels_; }

  // Waits until the device is done with what was enqueued; returns where the
  // time went, the part before Enqueue left out.
  absl::StatusOr<BatchTimings> Wait();

  // Whether an error has taken the GPU's context with it.
  bool IsContextLost() const;

 private:
  // What the pieces of a batch share.
  struct Job {
    const GemmBatch& batch;
    std::shared_ptr<const CudaWeights> weights;
    LargeGemm* large;
    LargeKernels large_kernels;
    FloatType rounded_type;  // fp16 or bf16: what activations are rounded to
    FloatType operand_type;  // fp16 or bf16: what kernels read
    BatchShape shape;
  };

  BatchExecutor(Stream stream, DeviceBuffer progress, PinnedBuffer stamps)
      : stream_(std::move(stream)),
        progress_(std::move(progress)),
        stamps_(std::move(stamps)) {}

  static Job JobOf(const GemmBatch& batch, const FamilyPolicy& policy,
                   LargeGemm* large);

  absl::Status EnqueueByKernels(const Job& job, const Piece& piece);
  absl::Status WaitForStamps();

  absl::Status EnqueueWave(const Job& job, const Wave& wave);
  absl::Status CopyIn(const Job& job, const Piece& piece);
  absl::Status CopyOut(const Job& job, const Piece& piece);
  absl::Status Multiply(const Job& job, const Piece& piece);
  absl::Status Prepare(const Job& job, const Piece& piece);
  absl::Status MultiplyPrepared(const Job& job, const Piece& piece);
  absl::Status Mark();

  uint8_t* At(int64_t offset) const { return scratch_.data() + offset; }

  const Stream stream_;
  BatchPlan plan_;
  DeviceBuffer scratch_;
  LargeGemmScratch large_scratch_;
  // Where copy engines move rows: the start, then the ends of each wave's
  // copies in, kernels and copies out.
  std::vector<Event> marks_;
  size_t marked_ = 0;
  // Where kernels do.
  const DeviceBuffer progress_;  // a BatchProgress
  const PinnedBuffer stamps_;    // a BatchStamps
  uint64_t sequence_ = 0;        // of the last batch that they moved
  bool by_kernels_ = false;      // whether that is the batch to wait for
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_BATCH_EXECUTOR_H_
