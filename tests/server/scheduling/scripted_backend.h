// SPDX-License-Identifier: Apache-2.0
//
// Backend that only takes batches: the test sets Enqueue's status and ends the
// batch with timings of its choice.

#ifndef QGEMM_TESTS_SERVER_SCHEDULING_SCRIPTED_BACKEND_H_
#define QGEMM_TESTS_SERVER_SCHEDULING_SCRIPTED_BACKEND_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

// Holds one batch at a time. Not thread-safe.
class ScriptedBackend final : public Backend {
 public:
  // Sets the status that Enqueue returns from here on.
  void AnswerEnqueue(absl::Status status) { answer_ = std::move(status); }

  // Returns the enqueued batch; there must be one.
  const GemmBatch& batch() const { return batch_; }
  bool has_batch() const { return completion_ != nullptr; }

  void Complete(const absl::Status& status, const BatchTimings& timings) {
    std::exchange(completion_, nullptr)(status, timings, std::move(batch_));
  }

  absl::Status Enqueue(GemmBatch batch, BatchCompletion completion) override {
    if (!answer_.ok()) return answer_;
    batch_ = std::move(batch);
    completion_ = std::move(completion);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<WeightsBuilder>> NewBuilder() override {
    return absl::UnimplementedError("no builder");
  }
  int64_t EstimateResidentBytes(const WeightsShape&) const override {
    return 0;
  }
  absl::StatusOr<StagingLease> AcquireStaging(int64_t) override {
    return absl::UnimplementedError("no staging");
  }
  absl::Status CheckSupport(const ResidentWeights&,
                            const MatmulSignature&) const override {
    return absl::OkStatus();
  }
  BackendLimits limits() const override { return {}; }
  BackendDescription describe() const override { return {}; }
  BackendMemory memory() const override { return {}; }

 private:
  absl::Status answer_;
  GemmBatch batch_;
  BatchCompletion completion_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_SERVER_SCHEDULING_SCRIPTED_BACKEND_H_
