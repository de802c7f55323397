// SPDX-License-Identifier: Apache-2.0
//
// A build without the CUDA backend.

#include "absl/status/status.h"
#include "bench/gpu_measurer.h"

namespace qgemm {

absl::StatusOr<std::unique_ptr<Measurer>> CreateGpuMeasurer(
    const GpuMeasurerOptions&) {
  return absl::FailedPreconditionError(
      "this build has no CUDA backend; it has: cpu, reference");
}

}  // namespace qgemm
