// SPDX-License-Identifier: Apache-2.0
//
// What the small-M kernels are launched with, how a block of threads is made
// up, and which part of the layer it owns.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_WQA16_ARGUMENTS_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_WQA16_ARGUMENTS_CUH_

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/tuning/shared_plan.h"

namespace qgemm::cuda {

// Warps that multiply together, a row tile each.
inline constexpr int kGroupWarps = 4;
inline constexpr int kMaxGroups = 4;
// With the group of the warp that brings weights and activations, at most.
inline constexpr int kMaxThreads = (kMaxGroups + 1) * kGroupWarps * 32;

// Tokens of a block, at most; of more, each so many have blocks of their own.
inline constexpr int kMaxBlockTokens = 64;

// Named barriers: of the threads that multiply, of those that bring stages, of
// both.
inline constexpr int kConsumersBarrier = 1;
inline constexpr int kProducersBarrier = 2;
inline constexpr int kBlockBarrier = 3;
// Of a group of warps that multiply: this one and following.
inline constexpr int kFirstGroupBarrier = 4;

enum class ResultType : int { kFloat16, kBFloat16, kFloat32 };

struct GemmArguments {
  const uint8_t* tiles;
  const float* row_scales;  // [padded n], or null
  const float* bias;        // [n], or null
  const float* codebook;    // [2^bits]
  float table_scale;        // of codebook values in the table
  float factor;             // of every sum
  CUtensorMap a_map;        // of a, for chips that have a copy engine
  const void* a;            // [m, lda]
  void* c;                  // [m, n]
  int64_t lda;
  int64_t n;
  int64_t k;
  int m;
  int row_tiles;
  int column_tiles;
  int splits;
  int column_warps;
  int slots;  // of the ring
  int tile_code_bytes;
  int tile_scale_bytes;
  int stage_bytes;
  int groups;  // of scales in 128 columns
  ResultType result;
  bool c_by_fours;  // four elements of C may be stored at once
};

// Groups of warps that a row block's tiles need.
__host__ __device__ inline int RowGroups(int row_tiles) {
  return (row_tiles + kGroupWarps - 1) / kGroupWarps;
}

__device__ __forceinline__ SharedPlan PlanOf(const GemmArguments& args,
                                             int codes, int tokens) {
  const SharedShape shape = {codes,          tokens,      args.stage_bytes,
                             args.row_tiles, args.splits, args.column_warps};
  return PlanShared(shape, args.slots);
}

struct BlockWork {
  int64_t row_block;
  int rank;   // in the cluster
  int begin;  // column tiles
  int end;
  int first_token;
  int tokens;  // that there are
};

__device__ __forceinline__ BlockWork WorkOf(const GemmArguments& args) {
  BlockWork work;
  work.row_block = blockIdx.x / args.splits;
  work.rank = blockIdx.x % args.splits;
  work.begin = work.rank * args.column_tiles / args.splits;
  work.end = (work.rank + 1) * args.column_tiles / args.splits;
  work.first_token = blockIdx.y * kMaxBlockTokens;
  const int left = args.m - work.first_token;
  work.tokens = left < kMaxBlockTokens ? left : kMaxBlockTokens;
  return work;
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WQA16_ARGUMENTS_CUH_
