// SPDX-License-Identifier: Apache-2.0
//
// Threads read 16 bytes each, side by side, and add what they have found up by
// warps.

#include "base/memory_checksum.h"
#include "kernels/cuda/launch/checksum.h"

namespace qgemm::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kBlocks = 1056;  // eight waves of an H200's SMs
constexpr int kWordsOfRead = 2;

// Terms of the words past the last whole 16 bytes; the last may be in part.
__device__ uint64_t SumOfRest(const uint8_t* data, int64_t size_bytes) {
  uint64_t sum = 0;
  for (int64_t at = size_bytes / 16 * 16; at < size_bytes; at += 8) {
    uint64_t word = 0;
    for (int i = 0; i < 8 && at + i < size_bytes; ++i) {
      word |= static_cast<uint64_t>(data[at + i]) << (8 * i);
    }
    sum += ChecksumTerm(word, at / 8);
  }
  return sum;
}

__global__ void ChecksumKernel(const uint8_t* data, int64_t size_bytes,
                               unsigned long long* sum) {
  const int64_t thread = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  const auto* const reads = reinterpret_cast<const ulonglong2*>(data);
  const int64_t count = size_bytes / 16;
  uint64_t own = thread == 0 ? SumOfRest(data, size_bytes) : 0;
  for (int64_t i = thread; i < count; i += int64_t{kBlocks} * kThreads) {
    const ulonglong2 words = reads[i];
    own += ChecksumTerm(words.x, i * kWordsOfRead);
    own += ChecksumTerm(words.y, i * kWordsOfRead + 1);
  }
  for (int step = 16; step > 0; step /= 2) {
    own += __shfl_down_sync(0xffffffff, own, step);
  }
  if (threadIdx.x % 32 == 0) {
    atomicAdd(sum, static_cast<unsigned long long>(own));
  }
}

}  // namespace

cudaError_t LaunchChecksum(const uint8_t* data, int64_t size_bytes,
                           uint64_t* sum, cudaStream_t stream) {
  const cudaError_t code = cudaMemsetAsync(sum, 0, sizeof(*sum), stream);
  if (code != cudaSuccess) return code;
  ChecksumKernel<<<kBlocks, kThreads, 0, stream>>>(
      data, size_bytes, reinterpret_cast<unsigned long long*>(sum));
  return cudaGetLastError();
}

}  // namespace qgemm::cuda
