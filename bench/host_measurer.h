// SPDX-License-Identifier: Apache-2.0
//
// Measures a backend that computes on the processor.

#ifndef QGEMM_BENCH_HOST_MEASURER_H_
#define QGEMM_BENCH_HOST_MEASURER_H_

#include <memory>
#include <optional>

#include "bench/case_runner.h"
#include "bench/measurer.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

class HostMeasurer final : public Measurer {
 public:
  HostMeasurer(std::unique_ptr<Backend> backend,
               const RotationOptions& options);

  BenchMachine machine() const override;
  absl::StatusOr<ReadRoof> MeasureRoof() override;
  std::optional<MultiplyPeaks> MeasurePeaks() override;
  // INVALID_ARGUMENT for a case that names a kernel path: there is one.
  absl::StatusOr<CaseResult> Measure(const BenchCase& bench_case) override;

 private:
  const std::unique_ptr<Backend> backend_;
  CaseRunner runner_;  // uses the backend
};

}  // namespace qgemm

#endif  // QGEMM_BENCH_HOST_MEASURER_H_
