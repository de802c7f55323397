// SPDX-License-Identifier: Apache-2.0
//
// --wrap=cudaMalloc makes each call of it one of __wrap_cudaMalloc, and
// __real_cudaMalloc the function itself.

#include "tests/kernels/cuda/allocation_counts.h"

#include <cuda_runtime_api.h>

#include <atomic>

namespace {

std::atomic<int64_t> device_allocations{0};
std::atomic<int64_t> device_releases{0};
std::atomic<int64_t> pinned_allocations{0};
std::atomic<int64_t> pinned_releases{0};

}  // namespace

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
cudaError_t __real_cudaMalloc(void** memory, size_t size);
cudaError_t __real_cudaFree(void* memory);
cudaError_t __real_cudaHostAlloc(void** memory, size_t size, unsigned flags);
cudaError_t __real_cudaFreeHost(void* memory);

cudaError_t __wrap_cudaMalloc(void** memory, size_t size) {
  device_allocations.fetch_add(1, std::memory_order_relaxed);
  return __real_cudaMalloc(memory, size);
}

cudaError_t __wrap_cudaFree(void* memory) {
  device_releases.fetch_add(1, std::memory_order_relaxed);
  return __real_cudaFree(memory);
}

cudaError_t __wrap_cudaHostAlloc(void** memory, size_t size, unsigned flags) {
  pinned_allocations.fetch_add(1, std::memory_order_relaxed);
  return __real_cudaHostAlloc(memory, size, flags);
}

cudaError_t __wrap_cudaFreeHost(void* memory) {
  pinned_releases.fetch_add(1, std::memory_order_relaxed);
  return __real_cudaFreeHost(memory);
}
// NOLINTEND(bugprone-reserved-identifier)

}  // extern "C"

namespace qgemm::cuda {

int64_t DeviceAllocationCount() { return device_allocations.load(); }
int64_t DeviceReleaseCount() { return device_releases.load(); }
int64_t PinnedAllocationCount() { return pinned_allocations.load(); }
int64_t PinnedReleaseCount() { return pinned_releases.load(); }

}  // namespace qgemm::cuda
