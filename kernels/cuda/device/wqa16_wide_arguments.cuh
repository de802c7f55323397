// SPDX-License-Identifier: Apache-2.0
//
// What the wide kernels are launched with, and a place in a ring.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_WQA16_WIDE_ARGUMENTS_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_WQA16_WIDE_ARGUMENTS_CUH_

#include <cstdint>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/wqa16_arguments.cuh"
#include "kernels/cuda/device/wqa16_ring.cuh"
#include "kernels/cuda/tuning/wide_order.h"
#include "kernels/cuda/tuning/wide_plan.h"

namespace qgemm::cuda {

inline constexpr int kWideConsumers = kWideGroups * kGroupWarps * 32;
inline constexpr int kWideThreads = kWideConsumers + kGroupWarps * 32;

struct WideArguments {
  // A stage in shared memory is one of kWideRowTiles row tiles: row_tiles and
  // stage_bytes say so.
  GemmArguments gemm;
  WideGrid grid;
  WidePlan plan;
  int layer_row_tiles;    // of a row block in memory
  int layer_stage_bytes;  // of those
  int tile_zero_bytes;
};

// The rings of a block.
__device__ __forceinline__ Ring PanelRing(const WideArguments& args,
                                          uint32_t shared) {
  return {shared + args.plan.barriers_offset, args.plan.panels};
}
__device__ __forceinline__ Ring StageRing(const WideArguments& args,
                                          uint32_t shared) {
  return {shared + args.plan.barriers_offset + args.plan.panels * kBarrierBytes,
          args.plan.stages};
}

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

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WQA16_WIDE_ARGUMENTS_CUH_
