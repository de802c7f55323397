// SPDX-License-Identifier: Apache-2.0
//
// Sorts the codes by what a caller can do about them.

#include "kernels/cuda/runtime/cuda_status.h"

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace qgemm::cuda {
namespace {

absl::StatusCode CodeOf(cudaError_t code) {
  if (IsSticky(code)) return absl::StatusCode::kUnavailable;
  switch (code) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilerNotFound:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

bool IsSticky(cudaError_t code) {
  switch (code) {
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorExternalDevice:
    case cudaErrorContextIsDestroyed:
    case cudaErrorDevicesUnavailable:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsClientTerminated:
    case cudaErrorUnknown:
#if CUDART_VERSION >= 13000
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
#endif
      return true;
    default:
      return false;
  }
}

absl::Status ToStatus(cudaError_t code, absl::string_view operation) {
  if (code == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // or the next launch check would blame another call
  const absl::string_view remedy =
      IsSticky(code)
          ? "; the GPU context is lost and the process must be restarted"
          : "";
  return absl::Status(CodeOf(code),
                      absl::StrCat(operation, ": ", cudaGetErrorString(code),
                                   " (", cudaGetErrorName(code), ")", remedy));
}

void LogFailure(cudaError_t code, absl::string_view operation) {
  if (code == cudaErrorCudartUnloading || IsSticky(code)) return;
  const absl::Status status = ToStatus(code, operation);
  if (!status.ok()) LOG(ERROR) << status.message();
}

}  // namespace qgemm::cuda
