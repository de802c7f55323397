// SPDX-License-Identifier: Apache-2.0
//
// Four threads have a block of 32 columns, and store eight bytes each.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "base/host_device.h"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/w4a8_gemm/quantize.cuh"
#include "kernels/cuda/launch/quantize_rows.h"
#include "kernels/cuda/layout/q8_layout.h"

namespace qgemm::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = int64_t{1} << 30;
static_assert(kMaxQuantizeRowsWords <= kThreads,
              "the first block of threads alone clears words");

struct KernelArgs {
  QuantizeRowsArgs rows;
  Q8Layout fragments;
  Q8PanelLayout panels;
};

// A lane's part of a block, and where the block is.
struct PlacedPart {
  Q8Part part;
  int64_t row;
  int64_t block;
  int t;
};

__device__ __forceinline__ void StoreFragments(const KernelArgs& args,
                                               const PlacedPart& placed) {
  const int in_tile = static_cast<int>(placed.row % kQ8TileRows);
  const int block_in_tile = static_cast<int>(placed.block % kQ8TileBlocks);
  uint8_t* const tile =
      args.rows.out +
      args.fragments.TileOffset(placed.row, placed.block / kQ8TileBlocks);
  const int codes =
      Q8CodeOffset(in_tile, block_in_tile * kQ8Block + 2 * placed.t);
  *reinterpret_cast<uint2*>(tile + codes) = placed.part.words;
  if (placed.t == 0) {
    *reinterpret_cast<float*>(tile + Q8ScaleOffset(in_tile, block_in_tile)) =
        placed.part.d8;
  }
}

__device__ __forceinline__ __half IntegerAt(uint32_t word, int byte) {
  return __int2half_rn(static_cast<int8_t>(word >> 8 * byte));
}

__device__ __forceinline__ void StorePanels(const KernelArgs& args,
                                            const PlacedPart& placed) {
  if (placed.t == 0) {
    reinterpret_cast<float*>(
        args.rows.out)[args.panels.ScaleIndex(placed.row, placed.block)] =
        placed.part.d8;
  }
  const int64_t first = placed.block * kQ8Block + 2 * placed.t;
  if (first >= args.rows.k) return;
  __half* const row =
      reinterpret_cast<__half*>(args.rows.out + args.panels.integers_offset()) +
      placed.row * args.rows.k;
#pragma unroll
  for (int step = 0; step < 2; ++step) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint32_t word = h == 0 ? placed.part.words.x : placed.part.words.y;
      *reinterpret_cast<__half2*>(row + Q8PanelColumn(first + 16 * step + h)) =
          __halves2half2(IntegerAt(word, 2 * step),
                         IntegerAt(word, 2 * step + 1));
    }
  }
}

template <typename In>
__global__ void __launch_bounds__(kThreads)
    QuantizeRows(const __grid_constant__ KernelArgs args) {
  LaunchDependents();
  GridDependencyWait();
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads +
                         static_cast<int64_t>(threadIdx.x);
  if (thread < args.rows.word_count) args.rows.words[thread] = 0;
  PlacedPart placed;
  placed.t = static_cast<int>(thread % kQ8Lanes);
  const int64_t blocks = args.fragments.k_tiles * kQ8TileBlocks;
  placed.row = thread / kQ8Lanes / blocks;
  placed.block = thread / kQ8Lanes % blocks;
  if (placed.row >= args.rows.m) return;
  Q8Columns columns;
  if (placed.block * kQ8Block < args.rows.k) {
    columns.Load(static_cast<const In*>(args.rows.a) +
                     placed.row * args.rows.k + placed.block * kQ8Block,
                 placed.t);
  }
  placed.part = Quantize(columns);
  if (args.rows.order == Q8Order::kPanels) {
    StorePanels(args, placed);
  } else {
    StoreFragments(args, placed);
  }
}

bool IsLegal(const QuantizeRowsArgs& args) {
  return args.m >= 0 && args.k >= 1 && args.k % kQ8Block == 0 &&
         args.word_count <= kMaxQuantizeRowsWords &&
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
  const KernelArgs kernel_args = {args, Q8LayoutOf(args.m, args.k),
                                  Q8PanelLayoutOf(args.m, args.k)};
  const int64_t threads =
      args.m * kernel_args.fragments.k_tiles * kQ8TileBlocks * kQ8Lanes;
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
  return cudaLaunchKernelEx(&launch, kernel, kernel_args);
}

}  // namespace qgemm::cuda
