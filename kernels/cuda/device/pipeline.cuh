// SPDX-License-Identifier: Apache-2.0
//
// The ring of pipeline stages in shared memory: slots with a full and an empty
// barrier each, and the positions of warps that read or fill them.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_PIPELINE_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_PIPELINE_CUH_

#include <cstdint>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/plan/smem_layout.h"

namespace qgemm::cuda {

// Arrivals at a full barrier: of the lane that asks TMA, or of
// all lanes, which copy themselves.
#if __CUDA_ARCH__ >= 900
inline constexpr int kProducerArrivals = 1;
#else
inline constexpr int kProducerArrivals = 32;
#endif

// Lanes of a warp that say that it is done with a slot: one for all, behind a
// barrier of the warp. racecheck knows no order through another lane.
#ifdef QGEMM_RACECHECK
inline constexpr int kReleasingLanes = 32;
#else
inline constexpr int kReleasingLanes = 1;
#endif

// Gives a slot back; 0 is none. The lanes have read it by then. No branch
// around the barrier of the warp: the assembler would make the multiplications
// wait for each other.
__device__ __forceinline__ void ReleaseSlot(uint32_t empty_barrier, int lane) {
  __syncwarp();
  if (empty_barrier != 0 && lane < kReleasingLanes) {
    BarrierArrive(empty_barrier);
  }
}

// Slots and their barriers: full when loaded, empty when it may be loaded
// again.
struct Ring {
  uint32_t barriers;  // full and empty of slot 0
  int slots;

  __device__ __forceinline__ uint32_t Full(int slot) const {
    return barriers + slot * kBarrierBytes;
  }
  __device__ __forceinline__ uint32_t Empty(int slot) const {
    return Full(slot) + 8;
  }
  // Behind those of the slots: of what other blocks send.
  __device__ __forceinline__ uint32_t Received() const { return Full(slots); }
};

// The stages that a warp takes: first, first + step, ... of `stages`.
struct KSlice {
  int first;
  int step;
  int stages;
};

// True if the ring has >= 3 slots per k-slice, so that a warp can prefetch. The
// ring then has a padding stage at the end of each k-slice, so that a warp
// loads ahead without asking whether there is more.
__device__ __forceinline__ bool HasSlotsAhead(const Ring& ring, int k_warps) {
#if __CUDA_ARCH__ >= 900
  return ring.slots >= 3 * k_warps;
#else
  return false;
#endif
}

// A warp's position in the ring, stage by stage.
class RingReader {
 public:
  __device__ __forceinline__ RingReader(const Ring& ring, const KSlice& slice)
      : barriers_(KeepInRegister(ring.barriers)),
        slots_(ring.slots),
        step_(slice.step),
        slot_(slice.first) {}

  __device__ __forceinline__ int slot() const { return slot_; }
  // Returns once the current slot is full.
  __device__ __forceinline__ void Wait() const { BarrierWait(full(), parity_); }
  // The barrier that gives the current slot back.
  __device__ __forceinline__ uint32_t empty() const { return full() + 8; }
  // There are at least as many slots as warps that alternate.
  __device__ __forceinline__ void Next() {
    slot_ += step_;
    if (slot_ >= slots_) {
      slot_ -= slots_;
      parity_ ^= 1;
    }
  }

 private:
  __device__ __forceinline__ uint32_t full() const {
    return barriers_ + slot_ * kBarrierBytes;
  }

  const uint32_t barriers_;
  const int slots_;
  const int step_;
  int slot_;
  uint32_t parity_ = 0;
};

// A slot and the parity of the phase that is waited for there.
struct RingPlace {
  int slot;
  uint32_t parity;

  __device__ __forceinline__ void Next(int slots) {
    ++slot;
    const bool wraps = slot == slots;
    slot = wraps ? 0 : slot;
    parity ^= wraps ? 1 : 0;
  }
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_PIPELINE_CUH_
