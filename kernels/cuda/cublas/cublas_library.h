// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt as the system has it, found at run time: nothing links it.

#ifndef QGEMM_KERNELS_CUDA_CUBLAS_CUBLAS_LIBRARY_H_
#define QGEMM_KERNELS_CUDA_CUBLAS_CUBLAS_LIBRARY_H_

#include <cublasLt.h>

#include "absl/status/statusor.h"

namespace qgemm::cuda {

// The functions that are used of it, under their own names. Valid for the
// life of the process.
struct CublasLibrary {
  decltype(&cublasLtCreate) Create = nullptr;
  decltype(&cublasLtDestroy) Destroy = nullptr;
  decltype(&cublasLtGetStatusString) GetStatusString = nullptr;
  decltype(&cublasLtGetVersion) GetVersion = nullptr;
  decltype(&cublasLtMatmul) Matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate = nullptr;
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute =
      nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic = nullptr;
};

// Errors: FAILED_PRECONDITION if the system has no cuBLASLt of version 12 or
// later.
absl::StatusOr<CublasLibrary> LoadCublasLibrary();

// OK, or a status that names the operation. RESOURCE_EXHAUSTED: memory.
// UNIMPLEMENTED: nothing in cuBLAS computes it. INTERNAL: everything else.
absl::Status ToStatus(const CublasLibrary& library, cublasStatus_t code,
                      absl::string_view operation);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_CUBLAS_CUBLAS_LIBRARY_H_
