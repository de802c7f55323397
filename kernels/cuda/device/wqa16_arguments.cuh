// SPDX-License-Identifier: Apache-2.0
//
// What the small-M kernels are launched with, how a block of threads is made
// up, and which part of the layer it owns.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_WQA16_ARGUMENTS_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_WQA16_ARGUMENTS_CUH_

#include <cstdint>

#include "kernels/cuda/tuning/shared_plan.h"

namespace qgemm::cuda {

inline constexpr int kTilesPerWarp = 2;
// With the producers, sixteen warps: 128 registers a thread.
inline constexpr int kMaxConsumerWarps = 14;
// One warp brings the weights, one the activations.
inline constexpr int kProducerWarps = 2;
inline constexpr int kMaxThreads = (kMaxConsumerWarps + kProducerWarps) * 32;

// How the kernel reads scales: E4M4 a block of 32, or any other kind.
enum class ScaleReader { kE4m4, kGeneral };
enum class GeneralScale : int { kFloat16, kBFloat16, kFloat32, kRow };
enum class ResultType : int { kFloat16, kBFloat16, kFloat32 };

struct GemmArguments {
  const uint8_t* tiles;
  const float* row_scales;  // [padded n], or null
  const float* bias;        // [n], or null
  const float* codebook;    // [2^bits]
  float table_scale;        // of codebook values in the table
  float factor;             // of every sum
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
  GeneralScale scale;
  ResultType result;
};

// Floats between two tokens' rows of partial sums: lanes then write to
// different banks.
__host__ __device__ inline int PartialStride(int row_tiles) {
  return row_tiles * 16 + 4;
}

struct BlockWork {
  int64_t row_block;
  int rank;   // in the cluster
  int begin;  // column tiles
  int end;
};

__device__ __forceinline__ BlockWork WorkOf(const GemmArguments& args) {
  BlockWork work;
  work.row_block = blockIdx.x / args.splits;
  work.rank = blockIdx.x % args.splits;
  work.begin = work.rank * args.column_tiles / args.splits;
  work.end = (work.rank + 1) * args.column_tiles / args.splits;
  return work;
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WQA16_ARGUMENTS_CUH_
