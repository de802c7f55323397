// SPDX-License-Identifier: Apache-2.0
//
// Splits eight columns of a row of A into bf16 parts, for the kernel that
// splits rows and for blocks that split their part of a row themselves.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_SPLIT_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_SPLIT_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/cuda/layout/a32_layout.h"

namespace qgemm::cuda {

__device__ __forceinline__ float ToFloat(float value) { return value; }
__device__ __forceinline__ float ToFloat(__half value) {
  return __half2float(value);
}
__device__ __forceinline__ float ToFloat(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

// The columns of 16 bytes of a part: those of t in a block of 32 columns.
struct A32Octet {
  float columns[8];

  // Calls element(column), counted from the first of the block, for each.
  template <typename Element>
  __device__ __forceinline__ void Load(int t, A32Form form, A32Pairs pairs,
                                       const Element& element) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      columns[i] = element(A32ColumnIn(form, t, i, pairs));
    }
  }

  // Calls store(part, 16 bytes of it).
  template <typename Store>
  __device__ __forceinline__ void Split(const Store& store) const {
    uint32_t words[kA32Parts][4] = {};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const A32Float split = SplitA32(__float_as_uint(columns[i]));
#pragma unroll
      for (int part = 0; part < kA32Parts; ++part) {
        words[part][i / 2] |= static_cast<uint32_t>(split.parts[part])
                              << 16 * (i % 2);
      }
    }
#pragma unroll
    for (int part = 0; part < kA32Parts; ++part) {
      store(part, make_uint4(words[part][0], words[part][1], words[part][2],
                             words[part][3]));
    }
  }
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_SPLIT_CUH_
