// SPDX-License-Identifier: Apache-2.0
//
// The queue and the thread around ReferenceMatmul.

#include "kernels/reference/reference_backend.h"

#include <unistd.h>

#include <deque>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "kernels/reference/memory_ledger.h"
#include "kernels/reference/reference_matmul.h"
#include "kernels/reference/reference_memory.h"
#include "kernels/reference/reference_weights.h"

namespace qgemm {
namespace {

class ReferenceBackend final : public Backend {
 public:
  ReferenceBackend(const BackendLimits& limits, int64_t memory_bytes)
      : limits_(limits),
        weights_memory_(memory_bytes),
        staging_memory_(memory_bytes),
        thread_([this] { RunBatches(); }) {}

  ~ReferenceBackend() override {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
    }
    changed_.Signal();
    thread_.join();
  }

  absl::StatusOr<std::unique_ptr<WeightsBuilder>> NewBuilder() override {
    return NewReferenceBuilder(limits_, &weights_memory_);
  }

  int64_t EstimateResidentBytes(const WeightsShape& shape) const override {
    return CanonicalBytes(shape);
  }

  absl::StatusOr<StagingLease> AcquireStaging(int64_t size_bytes) override {
    return AcquireHostStaging(size_bytes, &staging_memory_);
  }

  absl::Status CheckSupport(const ResidentWeights& weights,
                            const MatmulSignature& signature) const override {
    return CheckReferenceSupport(
        static_cast<const ReferenceWeights&>(weights).canonical().header(),
        signature);
  }

  absl::Status Enqueue(GemmBatch batch, BatchCompletion completion) override {
    RETURN_IF_ERROR(CheckBatchShape(batch, limits_));
    RETURN_IF_ERROR(CheckSupport(*batch.weights, batch.signature));
    {
      MutexLock lock(&mutex_);
      queue_.push_back({std::move(batch), std::move(completion), absl::Now()});
    }
    changed_.Signal();
    return absl::OkStatus();
  }

  BackendLimits limits() const override { return limits_; }

  BackendDescription describe() const override {
    return {"reference", "host processor", "fp64", 1};
  }

  BackendMemory memory() const override {
    return {weights_memory_.used_bytes(), staging_memory_.used_bytes(),
            weights_memory_.limit_bytes(), staging_memory_.used_bytes()};
  }

 private:
  struct Entry {
    GemmBatch batch;
    BatchCompletion completion;
    absl::Time enqueued;
  };

  void RunBatches() {
    while (true) {
      Entry entry;
      {
        MutexLock lock(&mutex_);
        while (queue_.empty() && !stopping_) changed_.Wait(&mutex_);
        if (queue_.empty()) return;
        entry = std::move(queue_.front());
        queue_.pop_front();
      }
      const absl::Time start = absl::Now();
      ReferenceMatmul(entry.batch);
      BatchTimings timings;
      timings.wait = start - entry.enqueued;
      timings.kernel = absl::Now() - start;
      entry.completion(absl::OkStatus(), timings, std::move(entry.batch));
    }
  }

  const BackendLimits limits_;
  MemoryLedger weights_memory_;
  MemoryLedger staging_memory_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Entry> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

int64_t HostMemoryBytes() {
  return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateReferenceBackend(
    const ReferenceBackendOptions& options) {
  const BackendLimits& limits = options.limits;
  if (limits.max_n < 1 || limits.max_k < 1 || limits.max_batch_rows < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "reference backend: limits n = ", limits.max_n, ", k = ", limits.max_k,
        ", rows = ", limits.max_batch_rows, "; legal: 1 or more"));
  }
  if (options.memory_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("reference backend: memory_bytes = ", options.memory_bytes,
                     "; legal: 0 or more"));
  }
  const int64_t memory_bytes =
      options.memory_bytes > 0 ? options.memory_bytes : HostMemoryBytes();
  return std::make_unique<ReferenceBackend>(limits, memory_bytes);
}

}  // namespace qgemm
