// SPDX-License-Identifier: Apache-2.0
//
// Takes and gives back device memory.

#include "kernels/cuda/runtime/device_buffer.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/log_failure.h"

namespace qgemm::cuda {
namespace {

std::atomic<int64_t> allocation_count{0};
std::atomic<int64_t> release_count{0};

}  // namespace

absl::StatusOr<DeviceBuffer> DeviceBuffer::Allocate(int64_t size_bytes) {
  const std::string operation =
      absl::StrCat("allocate ", size_bytes, " bytes of device memory");
  if (size_bytes < 0) return absl::InvalidArgumentError(operation);
  if (size_bytes == 0) return DeviceBuffer();
  void* data = nullptr;
  RETURN_IF_ERROR(ToStatus(cudaMalloc(&data, size_bytes), operation));
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  return DeviceBuffer(static_cast<uint8_t*>(data), size_bytes);
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ == nullptr) return;
  release_count.fetch_add(1, std::memory_order_relaxed);
  LogFailure(cudaFree(data_), "free device memory");
}

int64_t DeviceAllocationCount() {
  return allocation_count.load(std::memory_order_relaxed);
}

int64_t DeviceReleaseCount() {
  return release_count.load(std::memory_order_relaxed);
}

}  // namespace qgemm::cuda
