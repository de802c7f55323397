// SPDX-License-Identifier: Apache-2.0
//
// Batches on the device, and who ends each of them: the completion thread, or,
// while another thread attends, that thread if the batch is short.

#ifndef QGEMM_KERNELS_CUDA_RUNNING_BATCHES_H_
#define QGEMM_KERNELS_CUDA_RUNNING_BATCHES_H_

#include <optional>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "kernels/cuda/launch_context.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/completion_poller.h"
#include "kernels/programs/program_runner.h"

namespace qgemm::cuda {

struct GemmWork {
  GemmBatch batch;
  BatchCompletion completion;
};
struct ProgramWork {
  ProgramBatch batch;
  ProgramCompletion completion;
};

// A batch that waits for a launch context.
struct WaitingBatch {
  std::variant<GemmWork, ProgramWork> work;
  absl::Time enqueued;
};

// A batch on the device.
struct RunningBatch {
  WaitingBatch waiting;
  LaunchContext* context = nullptr;
  absl::Status status;  // of enqueueing it
  absl::Duration wait;
};

// In the order of their starts. Thread-safe.
class RunningBatches {
 public:
  RunningBatches() = default;
  RunningBatches(const RunningBatches&) = delete;
  RunningBatches& operator=(const RunningBatches&) = delete;

  void Push(RunningBatch batch);

  // Waits for a batch that the completion thread must end. Returns nullopt once
  // all is closed and none is left.
  std::optional<RunningBatch> Pop();

  // Says if a thread attends. After Close or EndAttendance none may any more.
  void SetAttended(bool is_attended);
  // Takes the oldest batch if it is done, for the thread that attends.
  PollResult PopIfDone(RunningBatch* batch);

  // Pop has all batches from here on, and waits no longer if there is none.
  void Close();
  // Pop has all batches from here on.
  void EndAttendance();

 private:
  // True if the oldest batch is the completion thread's.
  bool HasOwn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  RunningBatch Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  CondVar has_own_;
  // The oldest first: as many as there are contexts at most.
  std::vector<RunningBatch> batches_ ABSL_GUARDED_BY(mutex_);
  bool is_attended_ ABSL_GUARDED_BY(mutex_) = false;
  bool may_be_attended_ ABSL_GUARDED_BY(mutex_) = true;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_RUNNING_BATCHES_H_
