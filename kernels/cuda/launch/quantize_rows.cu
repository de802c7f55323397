// SPDX-License-Identifier: Apache-2.0
//
// Four threads have a block of 32 columns: each the pairs that one lane of a
// warp multiplies, which it writes by one store of eight bytes.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "base/host_device.h"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/launch/quantize_rows.h"
#include "kernels/cuda/layout/q8_layout.h"

namespace qgemm::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlockThreads = 4;  // of a block of 32 columns
constexpr int64_t kMaxBlocks = int64_t{1} << 30;

struct KernelArgs {
  QuantizeRowsArgs rows;
  Q8Layout layout;
};

__device__ __forceinline__ float2 LoadPair(const float* from) {
  return *reinterpret_cast<const float2*>(from);
}
__device__ __forceinline__ float2 LoadPair(const __half* from) {
  return __half22float2(*reinterpret_cast<const __half2*>(from));
}
__device__ __forceinline__ float2 LoadPair(const __nv_bfloat16* from) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(from));
}

// The value that `combine` makes of those of the block's four threads.
template <typename Combine>
__device__ __forceinline__ float OverBlock(float value,
                                           const Combine& combine) {
  value = combine(value, __shfl_xor_sync(0xffffffff, value, 1));
  return combine(value, __shfl_xor_sync(0xffffffff, value, 2));
}

// round(x / d), half away from zero. A d that is subnormal may be so much
// too small that the quotient is beyond 127.
__device__ __forceinline__ uint32_t Quantize(float x, float d) {
  const float q = fminf(fmaxf(roundf(__fdiv_rn(x, d)), -127.0f), 127.0f);
  return static_cast<uint32_t>(static_cast<int>(q)) & 0xff;
}

template <typename In>
__global__ void __launch_bounds__(kThreads)
    QuantizeRows(const __grid_constant__ KernelArgs args) {
  LaunchDependents();
  GridDependencyWait();
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads +
                         static_cast<int64_t>(threadIdx.x);
  const int t = static_cast<int>(thread % kBlockThreads);
  const int64_t blocks = args.layout.k_tiles * (kTileColumns / kQ8Block);
  const int64_t row = thread / kBlockThreads / blocks;
  const int64_t block = thread / kBlockThreads % blocks;
  const int64_t column = block * kQ8Block;
  float2 pairs[4] = {};
  if (row < args.rows.m && column < args.rows.k) {
    const In* const from = static_cast<const In*>(args.rows.a) +
                           row * args.rows.k + column + 2 * t;
#pragma unroll
    for (int j = 0; j < 4; ++j) pairs[j] = LoadPair(from + 8 * j);
  }
  float amax = 0;
  float not_finite = 0;  // or NaN
#pragma unroll
  for (const float2& pair : pairs) {
    amax = fmaxf(amax, fmaxf(fabsf(pair.x), fabsf(pair.y)));
    not_finite += pair.x * 0.0f + pair.y * 0.0f;
  }
  // All lanes of the warp take part: no thread has left.
  amax = OverBlock(amax, [](float a, float b) { return fmaxf(a, b); });
  not_finite = OverBlock(not_finite, [](float a, float b) { return a + b; });
  if (row >= args.rows.m) return;
  const float d = __fdiv_rn(amax, 127.0f) + not_finite;
  uint32_t words[2] = {};
  if (d > 0) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      words[0] |= Quantize(pairs[j].x, d) << 8 * j;
      words[1] |= Quantize(pairs[j].y, d) << 8 * j;
    }
  }
  const int in_tile = static_cast<int>(row % kQ8TileRows);
  const int block_in_tile = static_cast<int>(block % (kTileColumns / kQ8Block));
  uint8_t* const tile =
      args.rows.out +
      args.layout.TileOffset(row, block / (kTileColumns / kQ8Block));
  const int codes = Q8CodeOffset(in_tile, block_in_tile * kQ8Block + 2 * t);
  *reinterpret_cast<uint2*>(tile + codes) = make_uint2(words[0], words[1]);
  if (t == 0) {
    *reinterpret_cast<float*>(tile + Q8ScaleOffset(in_tile, block_in_tile)) = d;
  }
}

bool IsLegal(const QuantizeRowsArgs& args) {
  return args.m >= 0 && args.k >= 1 && args.k % kQ8Block == 0 &&
         reinterpret_cast<uintptr_t>(args.a) % 8 == 0 &&
         reinterpret_cast<uintptr_t>(args.out) % 16 == 0;
}

using Kernel = void (*)(KernelArgs);

Kernel KernelOf(FloatType a_type) {
  switch (a_type) {
    case FloatType::kFloat32:
      return QuantizeRows<float>;
    case FloatType::kFloat16:
      return QuantizeRows<__half>;
    case FloatType::kBFloat16:
      return QuantizeRows<__nv_bfloat16>;
  }
  return nullptr;
}

}  // namespace

cudaError_t LaunchQuantizeRows(const QuantizeRowsArgs& args,
                               cudaStream_t stream) {
  const Kernel kernel = KernelOf(args.a_type);
  if (!IsLegal(args) || kernel == nullptr) return cudaErrorInvalidValue;
  if (args.m == 0) return cudaSuccess;
  const Q8Layout layout = Q8LayoutOf(args.m, args.k);
  const int64_t threads =
      args.m * layout.k_tiles * (kTileColumns / kQ8Block) * kBlockThreads;
  const int64_t blocks = CeilDiv(threads, int64_t{kThreads});
  if (blocks > kMaxBlocks) return cudaErrorInvalidValue;
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(static_cast<unsigned>(blocks));
  launch.blockDim = dim3(kThreads);
  launch.stream = stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  launch.attrs = &attribute;
  launch.numAttrs = 1;
  return cudaLaunchKernelEx(&launch, kernel, KernelArgs{args, layout});
}

}  // namespace qgemm::cuda
