// SPDX-License-Identifier: Apache-2.0
//
// Four threads have a row's block of 32 columns; each splits eight of them and
// stores 16 bytes of each part.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "base/host_device.h"
#include "kernels/cuda/device/a32_gemm/split.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/launch/split_rows.h"
#include "kernels/cuda/layout/a32_layout.h"

namespace qgemm::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // of a block of columns
constexpr int64_t kMaxBlocks = int64_t{1} << 30;

struct KernelArgs {
  SplitRowsArgs rows;
  A32Layout layout;
};

// Element `column` of a row in the layer's order, 0 beyond k.
template <typename In>
__device__ __forceinline__ float ElementOf(const SplitRowsArgs& args,
                                           const In* row, int64_t column) {
  if (column >= args.k) return 0;
  const int64_t from =
      args.permutation == nullptr ? column : args.permutation[column];
  return ToFloat(row[from]);
}

template <typename In>
__global__ void __launch_bounds__(kThreads)
    SplitRows(const __grid_constant__ KernelArgs args) {
  LaunchDependents();
  GridDependencyWait();
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads +
                         static_cast<int64_t>(threadIdx.x);
  const int t = static_cast<int>(thread % kLanes);
  const int64_t blocks = args.layout.k_tiles * kA32TileBlocks;
  const int64_t row = thread / kLanes / blocks;
  const int64_t block = thread / kLanes % blocks;
  if (row >= args.rows.m) return;
  const In* const a = static_cast<const In*>(args.rows.a) + row * args.rows.k;
  const int tile_m = args.layout.tile_m;
  A32Octet octet;
  octet.Load(t, A32FormOf(tile_m), args.rows.pairs, [&](int column) {
    return ElementOf(args.rows, a, block * kA32Block + column);
  });
  uint8_t* const stage =
      args.rows.out + args.layout.StageOffset(row, block / kA32TileBlocks);
  octet.Split([&](int part, const uint4& words) {
    const A32Place place = {static_cast<int>(row % tile_m),
                            static_cast<int>(block % kA32TileBlocks), t, part};
    *reinterpret_cast<uint4*>(stage + A32Offset(place, tile_m)) = words;
  });
}

bool IsLegal(const SplitRowsArgs& args) {
  return args.m >= 0 && args.k >= 1 &&
         reinterpret_cast<uintptr_t>(args.out) % 16 == 0;
}

using Kernel = void (*)(KernelArgs);

Kernel KernelOf(FloatType a_type) {
  switch (a_type) {
    case FloatType::kFloat32:
      return SplitRows<float>;
    case FloatType::kFloat16:
      return SplitRows<__half>;
    case FloatType::kBFloat16:
      return SplitRows<__nv_bfloat16>;
  }
  return nullptr;
}

}  // namespace

cudaError_t LaunchSplitRows(const SplitRowsArgs& args, cudaStream_t stream) {
  const Kernel kernel = KernelOf(args.a_type);
  if (!IsLegal(args) || kernel == nullptr) return cudaErrorInvalidValue;
  if (args.m == 0) return cudaSuccess;
  const A32Layout layout = A32LayoutOf(args.m, args.k);
  const int64_t threads = args.m * layout.k_tiles * kA32TileBlocks * kLanes;
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
