// SPDX-License-Identifier: Apache-2.0
//
// Rounds a block of 32 activations to Q8_1 (docs/formats.md) by four lanes side
// by side, lane t of which has the columns 8 j + 2 t and 8 j + 2 t + 1: those
// that lane t of a row multiplies (q8_layout.h).

#ifndef QGEMM_KERNELS_CUDA_DEVICE_W4A8_GEMM_QUANTIZE_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_W4A8_GEMM_QUANTIZE_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/cuda/layout/q8_layout.h"

namespace qgemm::cuda {

__device__ __forceinline__ float2 LoadPair(const float* from) {
  return *reinterpret_cast<const float2*>(from);
}
__device__ __forceinline__ float2 LoadPair(const __half* from) {
  return __half22float2(*reinterpret_cast<const __half2*>(from));
}
__device__ __forceinline__ float2 LoadPair(const __nv_bfloat16* from) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(from));
}

// A lane's columns of a block.
struct Q8Columns {
  float2 pairs[4] = {};

  // `block` is where the block starts.
  template <typename In>
  __device__ __forceinline__ void Load(const In* block, int t) {
#pragma unroll
    for (int j = 0; j < 4; ++j) pairs[j] = LoadPair(block + 8 * j + 2 * t);
  }
};

// A lane's part of a block that is quantized.
struct Q8Part {
  uint2 words;  // q8 of the even columns, of the odd ones
  float d8;     // of the block; NaN if it is not finite
};

// round(x / d), half away from zero. A d that is subnormal may be so much
// too small that the quotient is beyond 127.
__device__ __forceinline__ uint32_t QuantizeOne(float x, float d) {
  const float q = fminf(fmaxf(roundf(__fdiv_rn(x, d)), -127.0f), 127.0f);
  return static_cast<uint32_t>(static_cast<int>(q)) & 0xff;
}

// Called by all four lanes of a block.
__device__ __forceinline__ Q8Part Quantize(const Q8Columns& columns) {
  const unsigned lanes = 0xfu << (threadIdx.x % 32 & ~(kQ8Lanes - 1));
  float amax = 0;
  float not_finite = 0;  // or NaN
#pragma unroll
  for (const float2& pair : columns.pairs) {
    amax = fmaxf(amax, fmaxf(fabsf(pair.x), fabsf(pair.y)));
    not_finite += pair.x * 0.0f + pair.y * 0.0f;
  }
#pragma unroll
  for (int other = 1; other < kQ8Lanes; other *= 2) {
    amax = fmaxf(amax, __shfl_xor_sync(lanes, amax, other));
    not_finite += __shfl_xor_sync(lanes, not_finite, other);
  }
  Q8Part part = {{0, 0}, __fdiv_rn(amax, 127.0f) + not_finite};
  if (!(part.d8 > 0)) return part;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    part.words.x |= QuantizeOne(columns.pairs[j].x, part.d8) << 8 * j;
    part.words.y |= QuantizeOne(columns.pairs[j].y, part.d8) << 8 * j;
  }
  return part;
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_W4A8_GEMM_QUANTIZE_CUH_
