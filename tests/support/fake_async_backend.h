// SPDX-License-Identifier: Apache-2.0
//
// A backend whose batches complete on another thread when the test says so,
// in the order the test says, with the status the test says. It computes with
// the reference, so that it passes the conformance suite.

#ifndef QGEMM_TESTS_SUPPORT_FAKE_ASYNC_BACKEND_H_
#define QGEMM_TESTS_SUPPORT_FAKE_ASYNC_BACKEND_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "base/mutex.h"
#include "kernels/host/sticky_failure.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/completion_poller.h"
#include "kernels/programs/program_runner.h"

namespace qgemm {

struct FakeAsyncBackendOptions {
  BackendLimits limits = {int64_t{1} << 20, int64_t{1} << 20, 8192};
  // For weights and for staging each.
  int64_t memory_bytes = int64_t{1} << 30;
  // If false, C is left as it was: for tests of scheduling alone.
  bool computes = true;
};

// Unless held, batches complete in the order of Enqueue. Thread-safe.
// Destroying it releases the batches that are held and waits for them.
class FakeAsyncBackend final : public Backend,
                               private ProgramRunner,
                               private CompletionPoller {
 public:
  explicit FakeAsyncBackend(const FakeAsyncBackendOptions& options = {});
  ~FakeAsyncBackend() override;

  // From here on batches wait until they are released.
  void Hold();
  // Ends Hold and lets all that are held complete, the oldest first.
  void ReleaseAll();
  // Lets the held batch `index` complete, 0 the oldest; it must be there.
  void Release(int64_t index);
  // From here on AcquireStaging waits for ReleaseStaging, if it is for
  // `min_bytes` or more.
  void HoldStaging(int64_t min_bytes);
  void ReleaseStaging();
  // Blocks until `count` calls of AcquireStaging wait.
  void WaitForHeldStaging(int64_t count);

  // Blocks until `count` batches are held, or completed, in all.
  void WaitForHeld(int64_t count);
  void WaitForCompleted(int64_t count);

  // The next `count` batches that complete do so with `status`, C unwritten.
  void FailCompletions(int64_t count, absl::Status status);
  // The next `count` calls of Enqueue (AcquireStaging, NewBuilder)
  // answer `status`.
  void FailEnqueues(int64_t count, absl::Status status);
  void FailStaging(int64_t count, absl::Status status);
  void FailBuilders(int64_t count, absl::Status status);

  int64_t enqueued() const;
  int64_t completed() const;
  // Number of those that a thread that attends has completed.
  int64_t polled() const;
  bool is_attended() const;
  int64_t held() const;
  // Rows of every enqueued batch, in order.
  std::vector<int64_t> enqueued_rows() const;
  // Leases of staging and of hosts' memory that are out.
  int64_t leases() const { return leases_.load(); }

  absl::StatusOr<std::unique_ptr<WeightsBuilder>> NewBuilder() override;
  int64_t EstimateResidentBytes(const WeightsShape& shape) const override;
  absl::StatusOr<StagingLease> AcquireStaging(int64_t size_bytes) override;
  absl::StatusOr<StagingLease> LeaseHostMemory(uint8_t* data,
                                               int64_t size_bytes) override;
  // Stands for a GPU of UUID zero: `memory` is a file that can be mapped.
  absl::StatusOr<StagingLease> ImportDeviceMemory(
      const DeviceMemory& memory) override;
  absl::Status CheckSupport(const ResidentWeights& weights,
                            const MatmulSignature& signature) const override;
  absl::Status Enqueue(GemmBatch batch, BatchCompletion completion) override;
  CompletionPoller* completions() override { return this; }
  ProgramRunner* programs() override { return this; }
  absl::Status failure() const override { return failure_.status(); }
  void GiveUp(const absl::Status& reason) override;
  // kHang is Hold; after kLoseDevice batches fail, those held too.
  absl::Status InjectFault(BackendFault fault) override;
  BackendLimits limits() const override { return options_.limits; }
  BackendDescription describe() const override;
  BackendMemory memory() const override;

 private:
  struct Entry {
    GemmBatch batch;  // without weights: `program`
    BatchCompletion completion;
    ProgramBatch program;
    ProgramCompletion program_completion;
    BatchTimings timings = {};  // of ops, if the batch asks for them

    void Compute();
    void End(const absl::Status& status);
  };
  // A status for the next `count` calls of a kind.
  struct Failures {
    int64_t count = 0;
    absl::Status status;

    absl::Status Next();
  };

  absl::StatusOr<std::shared_ptr<const CompiledProgram>> Compile(
      std::shared_ptr<const CheckedProgram> program,
      WeightsOfProgram weights) override;
  absl::Status EnqueueProgram(ProgramBatch batch,
                              ProgramCompletion completion) override;
  absl::Status Take(Entry entry, int64_t rows);

  void Attend() override;
  void Leave() override;
  PollResult Poll() override;

  void WaitWhileStagingIsHeld(int64_t size_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CompleteBatches();
  void Complete(Entry entry);

  const FakeAsyncBackendOptions options_;
  ByteBudget weights_memory_;
  ByteBudget staging_memory_;
  std::atomic<int64_t> leases_{0};
  StickyFailure failure_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Entry> held_ ABSL_GUARDED_BY(mutex_);
  std::deque<Entry> released_ ABSL_GUARDED_BY(mutex_);
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  // The least staging that waits, while some does.
  std::optional<int64_t> held_staging_bytes_ ABSL_GUARDED_BY(mutex_);
  int64_t held_staging_ ABSL_GUARDED_BY(mutex_) = 0;  // calls that wait
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Failures completion_failures_ ABSL_GUARDED_BY(mutex_);
  Failures enqueue_failures_ ABSL_GUARDED_BY(mutex_);
  Failures staging_failures_ ABSL_GUARDED_BY(mutex_);
  Failures builder_failures_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> enqueued_rows_ ABSL_GUARDED_BY(mutex_);
  int64_t completed_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_attended_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t polled_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_SUPPORT_FAKE_ASYNC_BACKEND_H_
