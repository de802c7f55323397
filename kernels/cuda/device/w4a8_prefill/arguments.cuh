// SPDX-License-Identifier: Apache-2.0
//
// Parameters of a launch of the kernel of mode A8 for many rows.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_W4A8_PREFILL_ARGUMENTS_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_W4A8_PREFILL_ARGUMENTS_CUH_

#include <cstdint>

#include "kernels/cuda/device/prefill_gemm/arguments.cuh"
#include "kernels/cuda/layout/q8_layout.h"
#include "kernels/cuda/plan/w4a8_prefill_plan.h"

namespace qgemm::cuda {

struct W4A8PrefillArguments {
  // a_map is of the integers of Q8PanelLayout; stages are of kPrefillNTiles row
  // tiles; smem is as in `smem`.
  PrefillArguments prefill;
  W4A8PrefillSmemLayout smem;
  const uint8_t* scales;  // of Q8PanelLayout
  int scale_rows;
};

__device__ __forceinline__ W4A8KOrder KOrderOf(const GemmArguments& args) {
  return {args.k_tiles, args.split_k, args.k_warps};
}

// Calls visit(k_tile) for all column tiles in the order of the sums.
template <typename Visit>
__device__ __forceinline__ void ForEachColumnTile(const GemmArguments& args,
                                                  const Visit& visit) {
  const W4A8KOrder order = KOrderOf(args);
  for (int rank = 0; rank < order.split_k; ++rank) {
    for (int turn = 0; turn < order.k_warps; ++turn) {
      const int first = order.First(rank, turn);
      const int stages = order.Stages(rank, turn);
      for (int stage = 0; stage < stages; ++stage) {
        visit(first + stage * order.k_warps);
      }
    }
  }
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_W4A8_PREFILL_ARGUMENTS_CUH_
