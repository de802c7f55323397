// SPDX-License-Identifier: Apache-2.0
//
// A build with the CUDA backend.

#include "kernels/backends/optional_cuda.h"

#include "kernels/cuda/cuda_backend.h"

namespace qgemm {

bool BuildHasCuda() { return true; }

absl::StatusOr<std::unique_ptr<Backend>> CreateOptionalCuda(
    const CudaOptions& options) {
  return CreateCudaBackend(options);
}

}  // namespace qgemm
