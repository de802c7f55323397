// SPDX-License-Identifier: Apache-2.0
//
// Launches are enqueued back to back, so that what is measured is the
// backend's work and not the wake-up of the bench's own thread.

#include "bench/case_runner.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/checked_math.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "bench/synthetic_layer.h"

namespace qgemm {
namespace {

constexpr int kMaxCopies = 512;

// Counts completions and keeps the first error.
class Completions {
 public:
  explicit Completions(int expected) : left_(expected) {}

  void Add(const absl::Status& status) {
    MutexLock lock(&mutex_);
    status_.Update(status);
    if (--left_ == 0) done_.Signal();
  }

  absl::Status Wait() {
    MutexLock lock(&mutex_);
    while (left_ > 0) done_.Wait(&mutex_);
    return status_;
  }

 private:
  Mutex mutex_;
  CondVar done_;
  int left_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status CaseRunner::LoadCopies(const BenchCase& bench_case) {
  if (!copies_.empty() && SameLayer(loaded_, bench_case)) {
    return absl::OkStatus();
  }
  copies_.clear();
  next_copy_ = 0;
  loaded_ = bench_case;
  int64_t wanted = 1;
  for (int64_t copy = 0; copy < wanted; ++copy) {
    ASSIGN_OR_RETURN(auto weights,
                     MakeSyntheticLayer(bench_case, copy + 1, backend_));
    wanted = std::clamp<int64_t>(
        CeilDiv(options_.total_bytes, weights->resident_bytes()), 1,
        kMaxCopies);
    copies_.push_back(std::move(weights));
  }
  return absl::OkStatus();
}

absl::StatusOr<CaseResult> CaseRunner::Run(const BenchCase& bench_case) {
  RETURN_IF_ERROR(LoadCopies(bench_case));
  GemmBatch batch;
  batch.weights = copies_[0];
  batch.signature = bench_case.signature();
  RETURN_IF_ERROR(backend_->CheckSupport(*copies_[0], batch.signature));
  const int64_t element = SizeOf(bench_case.dtype);
  const int64_t a_elements = bench_case.m * bench_case.shape.k;
  const int64_t c_elements = bench_case.m * bench_case.shape.n;
  ASSIGN_OR_RETURN(const StagingLease a,
                   backend_->AcquireStaging(a_elements * element));
  ASSIGN_OR_RETURN(const StagingLease c,
                   backend_->AcquireStaging(c_elements * element));
  FillRandomActivations(bench_case.dtype, a_elements, a.data());
  batch.segments = {{bench_case.m, a.data(), c.data()}};
  ASSIGN_OR_RETURN(CaseResult result, Sample(batch));
  result.bytes_moved =
      copies_[0]->resident_bytes() + (a_elements + c_elements) * element;
  return result;
}

absl::StatusOr<CaseResult> CaseRunner::Sample(const GemmBatch& batch) {
  ASSIGN_OR_RETURN(const absl::Duration once, Launch(batch, 1));
  const int launches = static_cast<int>(std::clamp<int64_t>(
      options_.sample_time / std::max(once, absl::Microseconds(1)), 1, 1000));
  std::vector<absl::Duration> times;
  for (int i = 0; i < options_.warm_ups + options_.samples; ++i) {
    ASSIGN_OR_RETURN(const absl::Duration time, Launch(batch, launches));
    if (i >= options_.warm_ups) times.push_back(time / launches);
  }
  std::sort(times.begin(), times.end());
  CaseResult result;
  result.median = times[times.size() / 2];
  result.fastest = times.front();
  result.slowest = times.back();
  result.copies = static_cast<int>(copies_.size());
  return result;
}

absl::StatusOr<absl::Duration> CaseRunner::Launch(const GemmBatch& batch,
                                                  int launches) {
  Completions completions(launches);
  const absl::Time start = absl::Now();
  for (int i = 0; i < launches; ++i) {
    GemmBatch next = batch;
    next.weights = copies_[next_copy_++ % copies_.size()];
    const absl::Status enqueued = backend_->Enqueue(
        std::move(next),
        [&completions](const absl::Status& status, const BatchTimings&,
                       const GemmBatch&) { completions.Add(status); });
    if (!enqueued.ok()) completions.Add(enqueued);
  }
  RETURN_IF_ERROR(completions.Wait());
  return absl::Now() - start;
}

}  // namespace qgemm
