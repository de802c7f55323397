// SPDX-License-Identifier: Apache-2.0
//
// A build with the CUDA backend.

#include "kernels/backends/optional_cuda.h"

#include "base/status_macros.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/tuning/tuning_file.h"

namespace qgemm {

bool BuildHasCuda() { return true; }

absl::StatusOr<std::unique_ptr<Backend>> CreateOptionalCuda(
    const std::string& kernel, const std::string& tuning_file) {
  CudaBackendOptions options;
  options.kernel = kernel;
  if (!tuning_file.empty()) {
    ASSIGN_OR_RETURN(options.tuning, cuda::ReadTuningFile(tuning_file));
  }
  return CreateCudaBackend(options);
}

}  // namespace qgemm
