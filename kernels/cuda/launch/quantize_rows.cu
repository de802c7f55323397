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

struct KernelArgs {
  QuantizeRowsArgs rows;
  Q8Layout layout;
};

template <typename In>
__global__ void __launch_bounds__(kThreads)
    QuantizeRows(const __grid_constant__ KernelArgs args) {
  LaunchDependents();
  GridDependencyWait();
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads +
                         static_cast<int64_t>(threadIdx.x);
  const int t = static_cast<int>(thread % kQ8Lanes);
  const int64_t blocks = args.layout.k_tiles * kQ8TileBlocks;
  const int64_t row = thread / kQ8Lanes / blocks;
  const int64_t block = thread / kQ8Lanes % blocks;
  if (row >= args.rows.m) return;
  Q8Columns columns;
  if (block * kQ8Block < args.rows.k) {
    columns.Load(static_cast<const In*>(args.rows.a) + row * args.rows.k +
                     block * kQ8Block,
                 t);
  }
  const Q8Part part = Quantize(columns);
  const int in_tile = static_cast<int>(row % kQ8TileRows);
  const int block_in_tile = static_cast<int>(block % kQ8TileBlocks);
  uint8_t* const tile =
      args.rows.out + args.layout.TileOffset(row, block / kQ8TileBlocks);
  const int codes = Q8CodeOffset(in_tile, block_in_tile * kQ8Block + 2 * t);
  *reinterpret_cast<uint2*>(tile + codes) = part.words;
  if (t == 0) {
    *reinterpret_cast<float*>(tile + Q8ScaleOffset(in_tile, block_in_tile)) =
        part.d8;
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
  const int64_t threads = args.m * layout.k_tiles * kQ8TileBlocks * kQ8Lanes;
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
