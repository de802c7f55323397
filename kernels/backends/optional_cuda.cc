// SPDX-License-Identifier: Apache-2.0
//
// A build with the CUDA backend.

#include "kernels/backends/optional_cuda.h"

#include "base/status_macros.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/tuning/row_moves.h"
#include "kernels/cuda/tuning/tuning_file.h"

namespace qgemm {

bool BuildHasCuda() { return true; }

absl::StatusOr<std::unique_ptr<Backend>> CreateOptionalCuda(
    const OptionalCudaOptions& options) {
  CudaBackendOptions cuda;
  cuda.kernel = options.kernel;
  ASSIGN_OR_RETURN(cuda.row_moves, cuda::ParseRowMoves(options.row_moves));
  if (!options.tuning_file.empty()) {
    ASSIGN_OR_RETURN(cuda.tuning, cuda::ReadTuningFile(options.tuning_file));
  }
  return CreateCudaBackend(cuda);
}

}  // namespace qgemm
