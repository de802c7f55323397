// SPDX-License-Identifier: Apache-2.0
//
// The bench's own kernels.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "bench/cuda/probe_kernels.h"

namespace qgemm::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 4096;

// A load that passes the first level cache by.
__device__ __forceinline__ uint4 LoadStreaming(const uint4* address) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(address));
  return value;
}

// Blocks take tiles in turn: what is read at one time stands together.
template <int kLoads>
__global__ void __launch_bounds__(kThreads)
    Read(const uint4* memory, int64_t tiles, uint32_t* sink) {
  constexpr int64_t kTile = kThreads * kLoads;
  static_assert(kReadTileBytes % (kTile * sizeof(uint4)) == 0,
                "a size that is legal for one grid is legal for all");
  uint32_t folded = 0;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const uint4* const from = memory + tile * kTile + threadIdx.x;
    uint4 values[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      values[i] = LoadStreaming(from + i * kThreads);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      folded ^= values[i].x ^ values[i].y ^ values[i].z ^ values[i].w;
    }
  }
  // Hardly ever true, which the compiler does not know.
  if (folded == 0x9e3779b9u) *sink = folded;
}

template <int kLoads>
cudaError_t StartRead(const void* memory, int64_t bytes, int blocks,
                      uint32_t* sink, cudaStream_t stream) {
  const int64_t tiles = bytes / (kThreads * kLoads * sizeof(uint4));
  Read<kLoads><<<blocks, kThreads, 0, stream>>>(
      static_cast<const uint4*>(memory), tiles, sink);
  return cudaGetLastError();
}

// 32 bits that look random, of an index (the finalizer of MurmurHash3).
__device__ __forceinline__ uint32_t Mix(uint64_t index) {
  uint64_t x = index + 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
  return static_cast<uint32_t>(x >> 32);
}

__device__ __forceinline__ void Store(float value, float* out) { *out = value; }
__device__ __forceinline__ void Store(float value, __half* out) {
  *out = __float2half_rn(value);
}
__device__ __forceinline__ void Store(float value, __nv_bfloat16* out) {
  *out = __float2bfloat16_rn(value);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    FillRandom(int64_t count, float magnitude, T* out) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < count; i += stride) {
    const uint32_t bits = Mix(static_cast<uint64_t>(i));
    // An odd multiple of 2^-11 below 1: exact in fp16, never zero.
    const float value = static_cast<float>(2 * (bits >> 22) + 1) * 0x1p-11f;
    Store((bits & 1) != 0 ? -value * magnitude : value * magnitude, out + i);
  }
}

// Exponents of all ones.
__device__ __forceinline__ bool IsNonFinite(float value) {
  return (__float_as_uint(value) & 0x7f800000u) == 0x7f800000u;
}
__device__ __forceinline__ bool IsNonFinite(__half value) {
  return (__half_as_ushort(value) & 0x7c00u) == 0x7c00u;
}
__device__ __forceinline__ bool IsNonFinite(__nv_bfloat16 value) {
  return (__bfloat16_as_ushort(value) & 0x7f80u) == 0x7f80u;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    CountNonFinite(const T* values, int64_t count, uint32_t* counter) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  uint32_t found = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < count; i += stride) {
    found += IsNonFinite(values[i]) ? 1 : 0;
  }
  if (found > 0) atomicAdd(counter, found);
}

unsigned BlocksFor(int64_t count) {
  return static_cast<unsigned>(
      std::clamp((count + kThreads - 1) / kThreads, int64_t{1}, kMaxBlocks));
}

}  // namespace

cudaError_t LaunchRead(const void* memory, int64_t bytes, const ReadGrid& grid,
                       uint32_t* sink, cudaStream_t stream) {
  if (bytes % kReadTileBytes != 0 || grid.blocks < 1) {
    return cudaErrorInvalidValue;
  }
  switch (grid.loads_in_flight) {
    case 4:
      return StartRead<4>(memory, bytes, grid.blocks, sink, stream);
    case 8:
      return StartRead<8>(memory, bytes, grid.blocks, sink, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t LaunchFillRandom(FloatType type, int64_t count, float magnitude,
                             void* out, cudaStream_t stream) {
  const unsigned blocks = BlocksFor(count);
  switch (type) {
    case FloatType::kFloat32:
      FillRandom<<<blocks, kThreads, 0, stream>>>(count, magnitude,
                                                  static_cast<float*>(out));
      break;
    case FloatType::kFloat16:
      FillRandom<<<blocks, kThreads, 0, stream>>>(count, magnitude,
                                                  static_cast<__half*>(out));
      break;
    case FloatType::kBFloat16:
      FillRandom<<<blocks, kThreads, 0, stream>>>(
          count, magnitude, static_cast<__nv_bfloat16*>(out));
      break;
  }
  return cudaGetLastError();
}

cudaError_t LaunchCountNonFinite(FloatType type, const void* values,
                                 int64_t count, uint32_t* counter,
                                 cudaStream_t stream) {
  const unsigned blocks = BlocksFor(count);
  switch (type) {
    case FloatType::kFloat32:
      CountNonFinite<<<blocks, kThreads, 0, stream>>>(
          static_cast<const float*>(values), count, counter);
      break;
    case FloatType::kFloat16:
      CountNonFinite<<<blocks, kThreads, 0, stream>>>(
          static_cast<const __half*>(values), count, counter);
      break;
    case FloatType::kBFloat16:
      CountNonFinite<<<blocks, kThreads, 0, stream>>>(
          static_cast<const __nv_bfloat16*>(values), count, counter);
      break;
  }
  return cudaGetLastError();
}

}  // namespace qgemm::cuda
