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

// The progress of a batch when its last kernel begins. Of a block's first
// thread; read before the results are moved, so that nothing waits for it.
struct ScatterStart {
  unsigned long long gather_begin;   // NOLINT
  unsigned long long gather_end;     // NOLINT
  unsigned long long scatter_begin;  // NOLINT
  uint64_t sequence;                 // of these stamps
};

__device__ __forceinline__ ScatterStart
StartScatter(const BatchProgress* progress) {
  if (threadIdx.x != 0) return {};
  return {progress->gather_begin, progress->gather_end, NowNanos(),
          progress->sequence + 1};
}

// The block has moved its part of a batch's results; the last block writes the
// stamps. Each fence takes as long as a write over PCIe.
__device__ __forceinline__ void StampScatter(BatchProgress* progress,
                                             const ScatterStart& start,
                                             BatchStamps* stamps) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  const unsigned int blocks = gridDim.x * gridDim.y;
  if (blocks > 1) {
    __threadfence_system();
    if (atomicAdd(&progress->scattered_blocks, 1u) + 1 < blocks) return;
    progress->scattered_blocks = 0;
  }
  stamps->gather_begin = start.gather_begin;
  stamps->gather_end = start.gather_end;
  stamps->scatter_begin = start.scatter_begin;
  stamps->scatter_end = NowNanos();
  progress->gather_end = 0;
  progress->first_rows = 0;
  progress->sequence = start.sequence;
  // For the results of all blocks as well, of which the atomic has told.
  __threadfence_system();
  *const_cast<volatile uint64_t*>(&stamps->sequence) = start.sequence;
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_BATCH_STAMPS_CUH_
