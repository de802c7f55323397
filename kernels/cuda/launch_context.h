// SPDX-License-Identifier: Apache-2.0
//
// Runs one batch at a time, in scratch memory of its own: moves rows in,
// prepares them, multiplies, moves results out. Batches of products have a
// stream of the context's own; recorded programs share one.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_CONTEXT_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/cuda/batch_end.h"
#include "kernels/cuda/cublas_gemm.h"
#include "kernels/cuda/gemm_launcher.h"
#include "kernels/cuda/plan/launch_plan.h"
#include "kernels/cuda/program_launcher.h"
#include "kernels/cuda/recorded_gemms.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/matrix/backend.h"
#include "kernels/programs/program_runner.h"

namespace qgemm::cuda {

// Enqueue and Wait alternate; they may come from different threads.
class LaunchContext {
 public:
  // On the calling thread's current device. Recorded programs run on
  // `program_stream`, which several contexts may share and must outlive them.
  static absl::StatusOr<std::unique_ptr<LaunchContext>> Create(
      cudaStream_t program_stream);

  // Enqueue a batch whose weights are CudaWeights, whose program is a
  // CudaProgram. In steady state they neither block nor allocate. Wait must
  // follow, on an error too.
  absl::Status Enqueue(const GemmBatch& batch,
                       const LaunchEnvironment& environment);
  absl::Status Enqueue(const ProgramBatch& batch,
                       const LaunchEnvironment& environment);

  // True if the launch is so short that Wait() should spin rather than block.
  bool is_short() const { return end_.is_short(); }

  // Looks, after a sleep where it is known how long the batch takes, until the
  // device is done with what was enqueued, or has failed at it, for no longer
  // than `limit` and until `given_up` is set. Wait returns at once after kDone.
  WaitEnd SpinUntilDone(absl::Duration limit,
                        const std::atomic<bool>& given_up) {
    return end_.SpinUntilDone(limit, given_up);
  }

  // True if the device is done with what was enqueued, or has failed at it: for
  // a thread that looks often. Wait returns at once then.
  bool LookIfDone() { return end_.LookIfDone(); }

  // Waits until the device is done with what was enqueued. Returns the time of
  // each part, the part before Enqueue left out.
  absl::StatusOr<BatchTimings> Wait() { return end_.Wait(); }

  // True if an error has taken the GPU's context with it.
  bool IsContextLost() const;

  // Stream of the context's batches but recorded programs.
  cudaStream_t stream() const { return stream_.get(); }

 private:
  // Facts that the launches of a batch share.
  struct Job {
    const GemmBatch& batch;
    const LaunchEnvironment& environment;
    GemmJob gemm;
  };

  LaunchContext(Stream stream, BatchEnd end, cudaStream_t program_stream)
      : stream_(std::move(stream)),
        end_(std::move(end)),
        programs_({stream_.get(), program_stream, &end_, &stream_scratch_}) {}

  // Before anything is recorded, which must not allocate.
  absl::Status ReserveHanded(const LaunchEnvironment& environment);
  absl::Status EnqueueByKernels(const Job& job, const PlannedLaunch& launch);
  absl::Status EnqueueGroup(const Job& job, const LaunchGroup& group);
  absl::Status CopyIn(const Job& job, const PlannedLaunch& launch);
  absl::Status CopyOut(const Job& job, const PlannedLaunch& launch);
  absl::Status Multiply(const Job& job, const PlannedLaunch& launch);

  uint8_t* At(int64_t offset) const { return scratch_.data() + offset; }

  const Stream stream_;
  BatchEnd end_;
  LaunchPlan plan_;
  DeviceBuffer scratch_;
  StreamScratch stream_scratch_;
  RecordedGemms recorded_{stream_.get(), &end_, &stream_scratch_};
  ProgramLauncher programs_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_CONTEXT_H_
