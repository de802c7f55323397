// SPDX-License-Identifier: Apache-2.0
//
// The one place where cuBLAS's codes become statuses.

#ifndef QGEMM_KERNELS_CUDA_CUBLAS_CUBLAS_STATUS_H_
#define QGEMM_KERNELS_CUDA_CUBLAS_CUBLAS_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/cublas/cublas_library.h"

namespace qgemm::cuda {

// OK, or a status that names the operation. RESOURCE_EXHAUSTED: memory.
// UNIMPLEMENTED: nothing in cuBLAS computes it. INTERNAL: everything else.
inline absl::Status ToStatus(const CublasLibrary& library, cublasStatus_t code,
                             absl::string_view operation) {
  if (code == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string message =
      absl::StrCat(operation, ": ", library.GetStatusString(code));
  switch (code) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      return absl::ResourceExhaustedError(message);
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return absl::UnimplementedError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_CUBLAS_CUBLAS_STATUS_H_
