// SPDX-License-Identifier: Apache-2.0
//
// The device's part of batch_stamps.h. Called by all threads of a block, of
// kernels whose grid has no third dimension.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_BATCH_STAMPS_CUH_
#define QGEMM_KERNELS_CUDA_LAUNCH_BATCH_STAMPS_CUH_

#include <cstdint>

#include "kernels/cuda/launch/batch_stamps.h"

namespace qgemm::cuda {

__device__ __forceinline__ unsigned long long NowNanos() {  // NOLINT
  unsigned long long now;                                   // NOLINT
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

// A batch's first kernel begins.
__device__ __forceinline__ void StampGatherBegin(BatchProgress* progress) {
  if (threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0) {
    progress->gather_begin = NowNanos();
  }
}

// The block has moved its part.
__device__ __forceinline__ void StampGatherEnd(BatchProgress* progress) {
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(&progress->gather_end, NowNanos());
}

// The block has moved its part of a batch's results, whose last kernel began at
// `begin`; the last block writes the stamps, with that sequence.
__device__ __forceinline__ void StampScatter(
    BatchProgress* progress, unsigned long long begin,  // NOLINT
    BatchStamps* stamps, uint64_t sequence) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence_system();
  const unsigned int blocks = gridDim.x * gridDim.y;
  if (atomicAdd(&progress->scattered_blocks, 1u) + 1 < blocks) return;
  __threadfence_system();
  stamps->gather_begin = progress->gather_begin;
  stamps->gather_end = progress->gather_end;
  stamps->scatter_begin = begin;
  stamps->scatter_end = NowNanos();
  progress->gather_end = 0;
  progress->scattered_blocks = 0;
  __threadfence_system();
  *const_cast<volatile uint64_t*>(&stamps->sequence) = sequence;
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_BATCH_STAMPS_CUH_
