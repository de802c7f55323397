// SPDX-License-Identifier: Apache-2.0
//
// Tells errors from the end of the process.

#include "kernels/cuda/runtime/log_failure.h"

#include "base/log.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace qgemm::cuda {

void LogFailure(cudaError_t code, absl::string_view operation) {
  if (code == cudaErrorCudartUnloading) return;
  const absl::Status status = ToStatus(code, operation);
  if (!status.ok()) LOG(ERROR) << status.message();
}

}  // namespace qgemm::cuda
