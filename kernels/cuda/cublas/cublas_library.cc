// SPDX-License-Identifier: Apache-2.0
//
// dlopen of the versions that share the ABI of the functions used.

#include "kernels/cuda/cublas/cublas_library.h"

#include <dlfcn.h>

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace qgemm::cuda {
namespace {

// The newest first.
constexpr const char* kFileNames[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                      "libcublasLt.so"};
constexpr size_t kOldestVersion = 120000;

// Never closed: the library must outlive every handle, and does not unload
// well.
absl::StatusOr<void*> Open() {
  for (const char* name : kFileNames) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return absl::FailedPreconditionError(
      "cuBLAS: neither libcublasLt.so.13 nor libcublasLt.so.12 is on the "
      "library path; install cuBLAS or name its folder in LD_LIBRARY_PATH");
}

template <typename Function>
absl::Status Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("cuBLAS: the system's library has no ", name));
}

absl::Status FindDescriptors(void* library, CublasLibrary& functions) {
  RETURN_IF_ERROR(
      Find(library, "cublasLtMatmulDescCreate", functions.MatmulDescCreate));
  RETURN_IF_ERROR(
      Find(library, "cublasLtMatmulDescDestroy", functions.MatmulDescDestroy));
  RETURN_IF_ERROR(Find(library, "cublasLtMatmulDescSetAttribute",
                       functions.MatmulDescSetAttribute));
  RETURN_IF_ERROR(Find(library, "cublasLtMatrixLayoutCreate",
                       functions.MatrixLayoutCreate));
  return Find(library, "cublasLtMatrixLayoutDestroy",
              functions.MatrixLayoutDestroy);
}

absl::Status FindHeuristics(void* library, CublasLibrary& functions) {
  RETURN_IF_ERROR(Find(library, "cublasLtMatmulPreferenceCreate",
                       functions.MatmulPreferenceCreate));
  RETURN_IF_ERROR(Find(library, "cublasLtMatmulPreferenceDestroy",
                       functions.MatmulPreferenceDestroy));
  RETURN_IF_ERROR(Find(library, "cublasLtMatmulPreferenceSetAttribute",
                       functions.MatmulPreferenceSetAttribute));
  return Find(library, "cublasLtMatmulAlgoGetHeuristic",
              functions.MatmulAlgoGetHeuristic);
}

}  // namespace

absl::StatusOr<CublasLibrary> LoadCublasLibrary() {
  ASSIGN_OR_RETURN(void* library, Open());
  CublasLibrary functions;
  RETURN_IF_ERROR(Find(library, "cublasLtCreate", functions.Create));
  RETURN_IF_ERROR(Find(library, "cublasLtDestroy", functions.Destroy));
  RETURN_IF_ERROR(Find(library, "cublasLtGetVersion", functions.GetVersion));
  RETURN_IF_ERROR(
      Find(library, "cublasLtGetStatusString", functions.GetStatusString));
  RETURN_IF_ERROR(Find(library, "cublasLtMatmul", functions.Matmul));
  RETURN_IF_ERROR(FindDescriptors(library, functions));
  RETURN_IF_ERROR(FindHeuristics(library, functions));
  if (functions.GetVersion() < kOldestVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("cuBLAS: the system's version is ", functions.GetVersion(),
                     "; the oldest that is used is ", kOldestVersion));
  }
  return functions;
}

absl::Status ToStatus(const CublasLibrary& library, cublasStatus_t code,
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
