// SPDX-License-Identifier: Apache-2.0
//
// Runs one batch at a time on a stream of its own, in scratch memory of its
// own: moves rows in, prepares them, multiplies, moves results out.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_CONTEXT_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_CONTEXT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/cuda/cublas_gemm.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/launch/host_rows.h"
#include "kernels/cuda/plan/launch_plan.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/matrix/backend.h"

namespace qgemm::cuda {

// A device and the means that batches share on it. Borrowed.
struct LaunchEnvironment {
  const Device* device = nullptr;
  const KernelPolicy* policy = nullptr;
  CublasGemm* cublas = nullptr;  // null without cuBLASLt
};

// End of a wait for the device.
enum class WaitEnd : uint8_t { kDone, kTimedOut, kGivenUp };

// Enqueue and Wait alternate; they may come from different threads.
class LaunchContext {
 public:
  // On the calling thread's current device.
  static absl::StatusOr<std::unique_ptr<LaunchContext>> Create();

  // Enqueues a batch whose weights are CudaWeights. In steady state it neither
  // blocks nor allocates. Wait must follow, on an error too.
  absl::Status Enqueue(const GemmBatch& batch,
                       const LaunchEnvironment& environment);

  // True if the launch is so short that Wait() should spin rather than block.
  bool is_short() const { return by_kernels_; }

  // Spins until the device is done with what was enqueued, or has failed at
  // it, for no longer than `limit` and until `given_up` is set. Wait returns at
  // once after kDone.
  WaitEnd SpinUntilDone(absl::Duration limit,
                        const std::atomic<bool>& given_up) const;

  // Waits until the device is done with what was enqueued. Returns the time of
  // each part, the part before Enqueue left out.
  absl::StatusOr<BatchTimings> Wait();

  // True if an error has taken the GPU's context with it.
  bool IsContextLost() const;

  // Stream of every batch of the context.
  cudaStream_t stream() const { return stream_.get(); }

 private:
  // Facts that the launches of a batch share.
  struct Job {
    const GemmBatch& batch;
    const LaunchEnvironment& environment;
    std::shared_ptr<const CudaWeights> weights;
    FloatType rounded_type;  // fp16 or bf16: activations are rounded to it
    FloatType operand_type;  // fp16 or bf16: kernels read it
    BatchShape shape;
  };

  LaunchContext(Stream stream, DeviceBuffer progress, PinnedBuffer stamps)
      : stream_(std::move(stream)),
        progress_(std::move(progress)),
        stamps_(std::move(stamps)) {}

  static Job JobOf(const GemmBatch& batch,
                   const LaunchEnvironment& environment);
  void MakePlan(Job& job);

  absl::Status EnqueueByKernels(const Job& job, const PlannedLaunch& launch);
  // True if the batch is one of rows that kernels move, and has ended.
  bool HasStamps() const;
  absl::Status WaitForStamps();

  absl::Status EnqueueGroup(const Job& job, const LaunchGroup& group);
  absl::Status CopyIn(const Job& job, const PlannedLaunch& launch);
  absl::Status CopyOut(const Job& job, const PlannedLaunch& launch);
  absl::Status Multiply(const Job& job, const PlannedLaunch& launch);
  absl::Status Prepare(const Job& job, const PlannedLaunch& launch);
  absl::Status MultiplyPrepared(const Job& job, const PlannedLaunch& launch);
  absl::Status MultiplyByCublas(const Job& job, const PlannedLaunch& launch,
                                const uint8_t* a);
  absl::Status Mark();

  uint8_t* At(int64_t offset) const { return scratch_.data() + offset; }

  const Stream stream_;
  LaunchPlan plan_;
  DeviceBuffer scratch_;
  CublasScratch cublas_scratch_;
  // For rows that DMA copy engines move: the start, then the ends of each
  // group's copies in, kernels and copies out.
  std::vector<Event> marks_;
  size_t marked_ = 0;
  // For rows that kernels move.
  const DeviceBuffer progress_;  // a BatchProgress
  const PinnedBuffer stamps_;    // a BatchStamps
  uint64_t sequence_ = 0;        // of the last such batch
  bool by_kernels_ = false;      // true if that is the batch to wait for
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_CONTEXT_H_
