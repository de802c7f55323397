// SPDX-License-Identifier: Apache-2.0
//
// Allocates and frees, with errors as statuses.

#include "kernels/cuda/runtime/buffers.h"

#include <cuda_runtime_api.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace qgemm::cuda {

absl::StatusOr<DeviceBuffer> DeviceBuffer::Allocate(int64_t size_bytes) {
  const std::string operation =
      absl::StrCat("allocate ", size_bytes, " bytes of device memory");
  if (size_bytes < 0) return absl::InvalidArgumentError(operation);
  if (size_bytes == 0) return DeviceBuffer();
  void* data = nullptr;
  RETURN_IF_ERROR(ToStatus(cudaMalloc(&data, size_bytes), operation));
  return DeviceBuffer(static_cast<uint8_t*>(data), size_bytes);
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ == nullptr) return;
  LogFailure(cudaFree(data_), "free device memory");
}

absl::Status Reserve(int64_t size_bytes, DeviceBuffer& buffer) {
  if (size_bytes <= buffer.size_bytes()) return absl::OkStatus();
  buffer = DeviceBuffer();
  ASSIGN_OR_RETURN(buffer, DeviceBuffer::Allocate(size_bytes));
  return absl::OkStatus();
}

absl::StatusOr<PinnedBuffer> PinnedBuffer::Allocate(int64_t size_bytes) {
  const std::string operation =
      absl::StrCat("allocate ", size_bytes, " bytes of pinned host memory");
  if (size_bytes < 0) return absl::InvalidArgumentError(operation);
  if (size_bytes == 0) return PinnedBuffer();
  void* data = nullptr;
  RETURN_IF_ERROR(ToStatus(
      cudaHostAlloc(&data, size_bytes, cudaHostAllocPortable), operation));
  return PinnedBuffer(static_cast<uint8_t*>(data), size_bytes);
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ == nullptr) return;
  LogFailure(cudaFreeHost(data_), "free pinned host memory");
}

absl::StatusOr<RegisteredMemory> RegisteredMemory::Register(
    uint8_t* data, int64_t size_bytes) {
  const std::string operation =
      absl::StrCat("register ", size_bytes, " bytes of host memory");
  if (size_bytes <= 0) return absl::InvalidArgumentError(operation);
  int device = 0;
  int by_host_address = 0;
  RETURN_IF_ERROR(ToStatus(cudaGetDevice(&device), operation));
  RETURN_IF_ERROR(ToStatus(
      cudaDeviceGetAttribute(&by_host_address,
                             cudaDevAttrCanUseHostPointerForRegisteredMem,
                             device),
      operation));
  if (by_host_address == 0) {
    return absl::UnimplementedError(absl::StrCat(
        operation, ": the device cannot use the host's addresses for it"));
  }
  RETURN_IF_ERROR(ToStatus(
      cudaHostRegister(data, size_bytes,
                       cudaHostRegisterPortable | cudaHostRegisterMapped),
      operation));
  return RegisteredMemory(data);
}

RegisteredMemory::~RegisteredMemory() {
  if (data_ == nullptr) return;
  LogFailure(cudaHostUnregister(data_), "unregister host memory");
}

}  // namespace qgemm::cuda
