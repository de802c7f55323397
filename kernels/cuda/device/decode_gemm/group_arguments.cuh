// SPDX-License-Identifier: Apache-2.0
//
// Kernel parameters of a group of decode GEMMs.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_GROUP_ARGUMENTS_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_GROUP_ARGUMENTS_CUH_

#include <cstdint>

#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/row_ops/columnwise.cuh"
#include "kernels/cuda/device/row_ops/norms.cuh"
#include "kernels/cuda/plan/program_fusion.h"

namespace qgemm::cuda {

// Threads of a block that compute a row's norm: all that multiply. As many as
// for a norm that is launched by itself, since its sums depend on it.
inline constexpr int kGroupNormThreads = 512;

// Columns of a norm that is rehearsed, at most.
inline constexpr int kMaxRehearsedWidth = 16384;

// Parts that a block multiplies one after the other.
inline constexpr int kMaxParts = 4;

// A matrix as an epilogue reads or writes it: a thread has four columns, at
// once if it is not a number a row. Null where there is none.
struct EpilogueMatrix {
  uint8_t* elements;
  FloatType type;
  int32_t width;
  int64_t row_bytes;  // 0: one row stands for all
};

struct EpilogueOp {
  ElementOp op;
  bool takes_pair;  // its other operand is what the paired GEMM ends with
  EpilogueMatrix other;
  FloatType type;         // of the result
  EpilogueMatrix result;  // null: nobody else reads it
};

struct EpilogueOps {
  FloatType c_type;
  int count;
  EpilogueOp ops[kMaxEpilogueOps];
};

struct GroupedGemm {
  GemmArguments gemm;  // c is null if nobody else reads the product
  EpilogueOps ops;
  int first_block;
  unsigned* done;           // counts its blocks, or null
  const unsigned* awaited;  // that of a GEMM before it, or null
  unsigned awaited_count;
  // DecodeParts, whose blocks share no K: parts of K that a block adds up
  // one after the other, and the place of the GEMM whose rows it multiplies
  // behind its own, or -1.
  int parts;
  int pair;
};

// The end of a GEMM of a group, held in shared memory while the block
// multiplies: constants have then to be fetched anew, one after the other.
struct HeldEnd {
  ResultArguments result;
  EpilogueOps ops;
};

// Shared memory of a block beside the GEMM's.
struct GroupScratch {
  NormScratch<kGroupNormThreads> norm;
  HeldEnd ends[2];  // of the block's GEMM and of its pair
};
inline constexpr int kGroupScratchBytes =
    static_cast<int>(sizeof(GroupScratch));
static_assert(kMaxBlockBytes + kGroupScratchBytes <= 227 << 10,
              "a block of a Hopper SM has no more");

// A norm that makes the activations.
struct GroupNorm {
  NormArgs first_row;
  int64_t x_row_bytes;
  int64_t result_row_bytes;
  int rows;  // 0: there is no norm
  bool rehearses;
  int blocks;      // that compute them, the first of the launch
  unsigned* done;  // counts its rows
};

// Rows of the activations that the first kernel of a batch counts when they are
// there, while it still brings what epilogues read.
struct GroupArrivals {
  const unsigned* counted;  // null: the end of the kernel before tells
  unsigned rows;
};

struct GroupArguments {
  GroupNorm norm;
  GroupArrivals arrivals;
  int cluster;  // blocks of a cluster
  int count;
  GroupedGemm gemms[kMaxGroupedGemms];
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_GROUP_ARGUMENTS_CUH_
