// SPDX-License-Identifier: Apache-2.0
//
// Parameters of a prefill kernel's launch, and the two rings of a block.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_ARGUMENTS_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_ARGUMENTS_CUH_

#include <cstdint>

#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/pipeline.cuh"
#include "kernels/cuda/device/prefill_gemm/tile_scheduler.h"
#include "kernels/cuda/plan/smem_layout.h"

namespace qgemm::cuda {

inline constexpr int kPrefillConsumers = kPrefillGroups * kGroupWarps * 32;
inline constexpr int kPrefillThreads = kPrefillConsumers + kGroupWarps * 32;

struct PrefillArguments {
  // A stage in shared memory is one of kPrefillNTiles row tiles: n_tiles and
  // stage_bytes say so.
  GemmArguments gemm;
  TileGrid grid;
  PrefillSmemLayout smem;
  int layer_n_tiles;      // of a row block in memory
  int layer_stage_bytes;  // of those
  int tile_zero_bytes;
};

// The rings of a block.
__device__ __forceinline__ Ring PanelRing(const PrefillArguments& args,
                                          uint32_t shared) {
  return {shared + args.smem.barriers_offset, args.smem.panels};
}
__device__ __forceinline__ Ring StageRing(const PrefillArguments& args,
                                          uint32_t shared) {
  return {shared + args.smem.barriers_offset + args.smem.panels * kBarrierBytes,
          args.smem.stages};
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_ARGUMENTS_CUH_
