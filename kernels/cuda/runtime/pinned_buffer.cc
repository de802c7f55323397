// SPDX-License-Identifier: Apache-2.0
//
// Takes and gives back page-locked host memory.

#include "kernels/cuda/runtime/pinned_buffer.h"

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

absl::StatusOr<PinnedBuffer> PinnedBuffer::Allocate(int64_t size_bytes) {
  const std::string operation = absl::StrCat(
      "allocate ", size_bytes, " bytes of page-locked host memory");
  if (size_bytes < 0) return absl::InvalidArgumentError(operation);
  if (size_bytes == 0) return PinnedBuffer();
  void* data = nullptr;
  RETURN_IF_ERROR(ToStatus(
      cudaHostAlloc(&data, size_bytes, cudaHostAllocPortable), operation));
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  return PinnedBuffer(static_cast<uint8_t*>(data), size_bytes);
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ == nullptr) return;
  release_count.fetch_add(1, std::memory_order_relaxed);
  LogFailure(cudaFreeHost(data_), "free page-locked host memory");
}

int64_t PinnedAllocationCount() {
  return allocation_count.load(std::memory_order_relaxed);
}

int64_t PinnedReleaseCount() {
  return release_count.load(std::memory_order_relaxed);
}

}  // namespace qgemm::cuda
