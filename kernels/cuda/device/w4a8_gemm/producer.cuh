// SPDX-License-Identifier: Apache-2.0
//
// The two warps of a block that bring stages: one the weights, one the
// activations; each one bulk copy a stage, or before sm_90 by cp.async of its
// lanes.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_W4A8_GEMM_PRODUCER_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_W4A8_GEMM_PRODUCER_CUH_

#include <cstdint>

#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/pipeline.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/layout/q8_layout.h"

namespace qgemm::cuda {

inline constexpr int kW4A8ProducerWarps = 2;
// Arrivals at a full barrier, where so many warps bring stages.
__device__ __forceinline__ int W4A8Arrivals(int warps) {
  return kProducerArrivals == 1 ? 1 : warps * kProducerArrivals;
}

// One operand's stages, contiguous in global memory: stage s at
// from + s * bytes, to slot s % slots at to + slot * bytes.
struct W4A8Source {
  const uint8_t* from;
  uint32_t to;
  int bytes;
};

// Called by all lanes of a warp. `expected` is the bytes of a stage that its
// full barrier waits for, or 0: the other warp says that. Calls pause() before
// stage `ahead`, if there is one.
template <typename Pause>
__device__ __forceinline__ void BringStages(const W4A8Source& source,
                                            const Ring& ring, int stages,
                                            int expected, int ahead,
                                            const Pause& pause) {
  const int lane = threadIdx.x % 32;
#if __CUDA_ARCH__ >= 900
  if (lane != 0) return;
#endif
  RingPlace place = {0, 1};  // a fresh barrier's former phase counts as done
  for (int stage = 0; stage < stages; ++stage) {
    if (stage == ahead) pause();
    BarrierWait(ring.Empty(place.slot), place.parity);
    const uint32_t full = ring.Full(place.slot);
    const uint8_t* const from = source.from + int64_t{stage} * source.bytes;
    const uint32_t to = source.to + place.slot * source.bytes;
#if __CUDA_ARCH__ >= 900
    if (expected > 0) BarrierArriveExpect(full, expected);
    CopyBulk(to, from, source.bytes, full);
#else
    for (int i = lane * 16; i < source.bytes; i += 512) {
      CopyAsync16(to + i, from + i, 16);
    }
    CopyAsyncArrive(full);
#endif
    place.Next(ring.slots);
  }
}

// The same without a pause.
__device__ __forceinline__ void BringStages(const W4A8Source& source,
                                            const Ring& ring, int stages,
                                            int expected) {
  BringStages(source, ring, stages, expected, stages, [] {});
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_W4A8_GEMM_PRODUCER_CUH_
