// SPDX-License-Identifier: Apache-2.0
//
// Parameters of a prefill kernel's launch, the two rings of a block, and the
// memory in which blocks hand sums over.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_ARGUMENTS_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_ARGUMENTS_CUH_

#include <cstdint>

#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/pipeline.cuh"
#include "kernels/cuda/plan/handed_sums.h"
#include "kernels/cuda/plan/smem_layout.h"
#include "kernels/cuda/plan/tile_scheduler.h"

namespace qgemm::cuda {

inline constexpr int kPrefillConsumers = kPrefillGroups * kGroupWarps * 32;
inline constexpr int kPrefillThreads = kPrefillConsumers + kGroupWarps * 32;

struct PrefillArguments {
  // A stage in shared memory is one of kPrefillNTiles row tiles: n_tiles and
  // stage_bytes say so.
  GemmArguments gemm;
  TileGrid grid;
  TileSchedule schedule;
  // 1 if the two blocks of a cluster share pieces, which then have units of two
  // stages: a pair counts as a block of the schedule. Else 0.
  int pairs;
  // fp16, twice: of fp16 scales that are multiplied into fp16 weights.
  uint32_t scale_factor;
  uint8_t* handed;  // kHandedBytes, if tiles are split
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

// This block or its pair as the schedule counts, and its place in the pair.
__device__ __forceinline__ int PlannedBlock(const PrefillArguments& args) {
  return static_cast<int>(blockIdx.x) >> args.pairs;
}
__device__ __forceinline__ int RankOf(const PrefillArguments& args) {
  return static_cast<int>(blockIdx.x) & args.pairs;
}

// The first of this block's stages of a piece, of which it has `piece.end -
// piece.begin`. Of an odd number of column tiles a pair has one too many: its
// activations are zeros.
__device__ __forceinline__ int FirstStage(const PrefillArguments& args,
                                          const TilePiece& piece) {
  return (piece.begin << args.pairs) + RankOf(args) * (piece.end - piece.begin);
}

// The block that hands over what the planned `block` does to this one.
__device__ __forceinline__ int HandingBlock(const PrefillArguments& args,
                                            int block) {
  return (block << args.pairs) + RankOf(args);
}

// The word that counts the warps which have handed the sums of a block over.
__device__ __forceinline__ unsigned* HandedWord(const PrefillArguments& args,
                                                int block) {
  return reinterpret_cast<unsigned*>(args.handed + kPrefillWordsOffset) + block;
}
// Those sums, [kTileM / 8][kPrefillConsumers] of four each.
template <int kTileM>
__device__ __forceinline__ uint8_t* HandedSums(const PrefillArguments& args,
                                               int block) {
  return args.handed + HandedSumsOffset(kTileM, block);
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_ARGUMENTS_CUH_
