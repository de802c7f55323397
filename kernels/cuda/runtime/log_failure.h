// SPDX-License-Identifier: Apache-2.0
//
// What destructors do with an error: tell it and go on.

#ifndef QGEMM_KERNELS_CUDA_RUNTIME_LOG_FAILURE_H_
#define QGEMM_KERNELS_CUDA_RUNTIME_LOG_FAILURE_H_

#include <cuda_runtime_api.h>

#include "absl/strings/string_view.h"

namespace qgemm::cuda {

// Logs the error, if it is one. Silent while the process ends, when the
// driver has gone before its clients.
void LogFailure(cudaError_t code, absl::string_view operation);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_RUNTIME_LOG_FAILURE_H_
