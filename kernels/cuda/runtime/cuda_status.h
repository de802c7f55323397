// SPDX-License-Identifier: Apache-2.0
//
// The one place where CUDA's error codes become statuses.

#ifndef QGEMM_KERNELS_CUDA_RUNTIME_CUDA_STATUS_H_
#define QGEMM_KERNELS_CUDA_RUNTIME_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace qgemm::cuda {

// True if the error has spoilt the process's CUDA context: every later call
// fails with it, until the process starts anew.
bool IsSticky(cudaError_t code);

// OK, or a status that names the operation; clears CUDA's own record of the
// error. RESOURCE_EXHAUSTED: memory. FAILED_PRECONDITION: no device, or no
// driver that serves this build. UNAVAILABLE: a sticky error, with what is to
// be done. INTERNAL: everything else.
absl::Status ToStatus(cudaError_t code, absl::string_view operation);

// Logs the error, if it is one. Silent while the process ends, when the
// driver has gone before its clients, and on a sticky error, which every call
// repeats and the backend logs.
void LogFailure(cudaError_t code, absl::string_view operation);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_RUNTIME_CUDA_STATUS_H_
