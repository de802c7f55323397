// SPDX-License-Identifier: Apache-2.0
//
// Asks the CUDA runtime.

#include "kernels/cuda/runtime/device.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace qgemm::cuda {
namespace {

absl::Status CheckIndex(int index) {
  int count = 0;
  const absl::Status status =
      ToStatus(cudaGetDeviceCount(&count), "look for a GPU");
  if (!status.ok()) {
    return absl::Status(
        status.code(),
        absl::StrCat("no usable CUDA device or driver: ", status.message()));
  }
  if (count == 0) {
    return absl::FailedPreconditionError("this host has no CUDA device");
  }
  if (index < 0 || index >= count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "CUDA device ", index, "; this host has 0 to ", count - 1));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Attribute(cudaDeviceAttr attribute, int index) {
  int value = 0;
  RETURN_IF_ERROR(ToStatus(cudaDeviceGetAttribute(&value, attribute, index),
                           absl::StrCat("query CUDA device ", index)));
  return value;
}

absl::StatusOr<int> ComputeCapability(int index) {
  ASSIGN_OR_RETURN(const int major,
                   Attribute(cudaDevAttrComputeCapabilityMajor, index));
  ASSIGN_OR_RETURN(const int minor,
                   Attribute(cudaDevAttrComputeCapabilityMinor, index));
  return major * 10 + minor;
}

absl::StatusOr<DeviceTraits> TraitsOf(int index) {
  DeviceTraits traits;
  ASSIGN_OR_RETURN(traits.compute_capability, ComputeCapability(index));
  RETURN_IF_ERROR(CheckComputeCapability(traits.compute_capability));
  ASSIGN_OR_RETURN(traits.sm_count,
                   Attribute(cudaDevAttrMultiProcessorCount, index));
  ASSIGN_OR_RETURN(traits.l2_bytes, Attribute(cudaDevAttrL2CacheSize, index));
  ASSIGN_OR_RETURN(traits.shared_bytes_per_block,
                   Attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, index));
  return traits;
}

absl::StatusOr<TensorMapEncoder> LoadTensorMapEncoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  RETURN_IF_ERROR(ToStatus(
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                       12000, cudaEnableDefault, &found),
      "look up cuTensorMapEncodeTiled"));
  if (found != cudaDriverEntryPointSuccess) {
    return absl::FailedPreconditionError(
        "the driver has no cuTensorMapEncodeTiled; CUDA 12.0 or later is "
        "needed");
  }
  return reinterpret_cast<TensorMapEncoder>(function);
}

}  // namespace

absl::Status CheckComputeCapability(int compute_capability) {
  if (compute_capability >= kMinComputeCapability) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the GPU has compute capability ", compute_capability / 10, ".",
      compute_capability % 10, "; the cuda backend needs 8.0 or more"));
}

absl::StatusOr<Device> OpenDevice(int index) {
  RETURN_IF_ERROR(CheckIndex(index));
  Device device;
  device.index = index;
  ASSIGN_OR_RETURN(device.traits, TraitsOf(index));
  cudaDeviceProp properties = {};
  RETURN_IF_ERROR(ToStatus(cudaGetDeviceProperties(&properties, index),
                           absl::StrCat("query CUDA device ", index)));
  device.name = properties.name;
  device.total_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  RETURN_IF_ERROR(SetCurrentDevice(index));
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  RETURN_IF_ERROR(ToStatus(cudaMemGetInfo(&free_bytes, &total_bytes),
                           absl::StrCat("query memory of device ", index)));
  device.free_bytes = static_cast<int64_t>(free_bytes);
  if (device.traits.compute_capability >= 90) {
    ASSIGN_OR_RETURN(device.encode_tensor_map, LoadTensorMapEncoder());
  }
  return device;
}

absl::Status SetCurrentDevice(int index) {
  const cudaError_t code = cudaSetDevice(index);
  if (code == cudaSuccess) return absl::OkStatus();  // without a message
  return ToStatus(code, absl::StrCat("use CUDA device ", index));
}

}  // namespace qgemm::cuda
