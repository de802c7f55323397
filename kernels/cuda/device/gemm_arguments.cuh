// SPDX-License-Identifier: Apache-2.0
//
// Kernel parameters of the decode kernel, the makeup of a block of threads, and
// the part of the layer that it owns. The prefill kernel adds its own
// (prefill_gemm/arguments.cuh).

#ifndef QGEMM_KERNELS_CUDA_DEVICE_GEMM_ARGUMENTS_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_GEMM_ARGUMENTS_CUH_

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/layout/tile_config.h"
#include "kernels/cuda/plan/smem_layout.h"

namespace qgemm::cuda {

// Warps that multiply together, a row tile each.
inline constexpr int kGroupWarps = 4;
inline constexpr int kMaxGroups = 4;
// With the group of the warp that brings weights and activations, at most.
inline constexpr int kMaxThreads = (kMaxGroups + 1) * kGroupWarps * 32;

// Named barriers: of the threads that multiply, of those that bring stages, of
// both.
inline constexpr int kConsumersBarrier = 1;
inline constexpr int kProducersBarrier = 2;
inline constexpr int kBlockBarrier = 3;
// The first barrier of groups of warps that multiply; others follow.
inline constexpr int kFirstGroupBarrier = 4;
// The barrier of the threads that multiply and of the warp that holds what
// their end needs.
inline constexpr int kHeldBarrier = kFirstGroupBarrier + kMaxGroups;

enum class ResultType : int { kFloat16, kBFloat16, kFloat32 };

// From sums to results.
struct ResultArguments {
  const float* row_scales;  // [padded n], or null
  const float* bias;        // [n], or null
  void* c;                  // [m, n]
  int64_t n;
  float factor;  // of every sum
  ResultType result;
  bool vectorized_store;  // four elements of C may be stored at once
};

struct GemmArguments : ResultArguments {
  const uint8_t* tiles;
  const float* codebook;  // [2^bits]
  float table_scale;      // of codebook values in the table
  CUtensorMap a_map;      // of a, for chips that have TMA
  const void* a;          // [m, lda]
  int64_t lda;
  int64_t k;
  int m;
  int n_tiles;
  int k_tiles;
  int split_k;
  int k_warps;
  int slots;  // of the ring
  int tile_code_bytes;
  int tile_scale_bytes;
  int stage_bytes;
  int groups;  // of scales in 128 columns
};

// Groups of warps that a row block's tiles need.
__host__ __device__ inline int NGroups(int n_tiles) {
  return (n_tiles + kGroupWarps - 1) / kGroupWarps;
}

__device__ __forceinline__ DecodeSmemLayout
SmemLayoutOf(const GemmArguments& args, int codes, int tile_m) {
  const DecodeSmemShape shape = {codes,        tile_m,       args.stage_bytes,
                                 args.n_tiles, args.split_k, args.k_warps};
  return DecodeSmemLayoutOf(shape, args.slots);
}

struct BlockWork {
  int64_t n_block;
  int rank;        // among those that share K
  int first_rank;  // place in the cluster of the first of them
  int begin;       // column tiles
  int end;
  int first_m;  // row of A
  int rows;     // of A that there are
};

// The work of a block, by its place among those of the GEMM.
__device__ __forceinline__ BlockWork WorkOf(const GemmArguments& args,
                                            unsigned block) {
  BlockWork work;
  work.n_block = block / args.split_k;
  work.rank = block % args.split_k;
  work.first_rank = 0;
  work.begin = work.rank * args.k_tiles / args.split_k;
  work.end = (work.rank + 1) * args.k_tiles / args.split_k;
  work.first_m = blockIdx.y * kDecodeBlockM;
  const int left = args.m - work.first_m;
  work.rows = left < kDecodeBlockM ? left : kDecodeBlockM;
  return work;
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_GEMM_ARGUMENTS_CUH_
