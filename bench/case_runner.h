// SPDX-License-Identifier: Apache-2.0
//
// Measures one case through a Backend: rotating copies of the layer, so that
// no weight is read from a cache, warm-ups, and the median of repeated
// samples.

#ifndef QGEMM_BENCH_CASE_RUNNER_H_
#define QGEMM_BENCH_CASE_RUNNER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/bench_case.h"
#include "bench/measurer.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

struct RotationOptions {
  int64_t total_bytes = 0;  // of all copies together, at least
  int samples = 10;
  int warm_ups = 3;
  // A sample makes as many launches as fit, at least one.
  absl::Duration sample_time = absl::Milliseconds(60);
};

// Used by one thread at a time. Keeps the copies of the last layer.
class CaseRunner {
 public:
  CaseRunner(Backend* backend, const RotationOptions& options)
      : backend_(backend), options_(options) {}

  // UNIMPLEMENTED if the backend does not offer the case.
  absl::StatusOr<CaseResult> Run(const BenchCase& bench_case);

 private:
  absl::Status LoadCopies(const BenchCase& bench_case);
  // The time of `launches` launches on the next copies, enqueued at once.
  absl::StatusOr<absl::Duration> Launch(const GemmBatch& batch, int launches);
  absl::StatusOr<CaseResult> Sample(const GemmBatch& batch);

  Backend* const backend_;
  const RotationOptions options_;
  BenchCase loaded_;
  std::vector<std::shared_ptr<const ResidentWeights>> copies_;
  size_t next_copy_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_BENCH_CASE_RUNNER_H_
