// SPDX-License-Identifier: Apache-2.0
//
// A build without the CUDA backend.

#include "absl/status/status.h"
#include "kernels/backends/optional_cuda.h"

namespace qgemm {

bool BuildHasCuda() { return false; }

absl::StatusOr<std::unique_ptr<Backend>> CreateOptionalCuda(
    const CudaOptions&) {
  return absl::FailedPreconditionError("this build has no CUDA backend");
}

}  // namespace qgemm
