// SPDX-License-Identifier: Apache-2.0
//
// Parameters of a launch of the kernel of mode A8 for many rows.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_W4A8_PREFILL_ARGUMENTS_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_W4A8_PREFILL_ARGUMENTS_CUH_

#include <cstdint>

#include "kernels/cuda/device/prefill_gemm/arguments.cuh"
#include "kernels/cuda/layout/q8_layout.h"
#include "kernels/cuda/plan/w4a8_pieces.h"
#include "kernels/cuda/plan/w4a8_prefill_plan.h"

namespace qgemm::cuda {

struct W4A8PrefillArguments {
  // a_map is of the integers of Q8PanelLayout; stages are of kPrefillNTiles row
  // tiles; smem is as in `smem`.
  PrefillArguments prefill;
  W4A8PrefillSmemLayout smem;
  const uint8_t* scales;  // of Q8PanelLayout
  int scale_rows;
  // Blocks share tiles by `handed`, kHandedBytes, whose words are zero
  // before.
  bool shares;
  uint8_t* handed;
};

__device__ __forceinline__ W4A8KOrder KOrderOf(const GemmArguments& args) {
  return {args.k_tiles, args.split_k, args.k_warps};
}

__device__ __forceinline__ W4A8Pieces
PiecesOf(const W4A8PrefillArguments& args) {
  return {TileCount(args.prefill.grid), args.prefill.gemm.k_tiles,
          static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x),
          args.shares};
}

// Calls visit(k_tile) for the piece's column tiles in the order of the sums.
// Only layers of one part of K have pieces that are not whole.
template <typename Visit>
__device__ __forceinline__ void ForEachColumnTile(
    const W4A8PrefillArguments& args, const W4A8Piece& piece,
    const Visit& visit) {
  if (args.shares) {
    for (int k_tile = piece.begin; k_tile < piece.end; ++k_tile) visit(k_tile);
    return;
  }
  const W4A8KOrder order = KOrderOf(args.prefill.gemm);
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
