// SPDX-License-Identifier: Apache-2.0
//
// One thread each.

#include "kernels/cuda/launch/fault.h"

namespace qgemm::cuda {
namespace {

constexpr uint64_t kLongestHangNanoseconds = 600'000'000'000;

__device__ uint64_t GlobalNanoseconds() {
  uint64_t nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}

__global__ void HangKernel(const volatile uint32_t* release) {
  const uint64_t end = GlobalNanoseconds() + kLongestHangNanoseconds;
  while (*release == 0 && GlobalNanoseconds() < end) {
  }
}

__global__ void IllegalAccessKernel(volatile uint32_t* nobodys) {
  *nobodys = 1;
}

}  // namespace

cudaError_t LaunchHang(const uint32_t* release, cudaStream_t stream) {
  HangKernel<<<1, 1, 0, stream>>>(release);
  return cudaGetLastError();
}

cudaError_t LaunchIllegalAccess(cudaStream_t stream) {
  constexpr uintptr_t kUnmapped = 64;
  IllegalAccessKernel<<<1, 1, 0, stream>>>(
      reinterpret_cast<uint32_t*>(kUnmapped));
  return cudaGetLastError();
}

}  // namespace qgemm::cuda
