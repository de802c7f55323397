// SPDX-License-Identifier: Apache-2.0
//
// Walks the scales of every stage, whatever rows and groups they belong to:
// padding has zeros. Magnitudes are compared as the integers of their bits.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "kernels/cuda/launch/largest_scale.h"

namespace qgemm::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1024;

// Runs of scales, one a stage.
struct ScaleRuns {
  const uint8_t* first = nullptr;
  int64_t stride_bytes = 0;
  int64_t run_elements = 0;
  int64_t elements = 0;  // of all runs
};

// E4M4: 4 exponent bits with bias 11 over 4 mantissa bits.
struct E4m4 {
  uint8_t bits;
};

__device__ __forceinline__ float Magnitude(float scale) { return fabsf(scale); }
__device__ __forceinline__ float Magnitude(__half scale) {
  return fabsf(__half2float(scale));
}
__device__ __forceinline__ float Magnitude(__nv_bfloat16 scale) {
  return fabsf(__bfloat162float(scale));
}
__device__ __forceinline__ float Magnitude(E4m4 scale) {
  const int exponent = scale.bits >> 4;
  const int mantissa = scale.bits & 15;
  return exponent == 0 ? ldexpf(mantissa, -14)
                       : ldexpf(16 + mantissa, exponent - 15);
}

template <typename Scale>
__global__ void __launch_bounds__(kThreads)
    LargestScaleKernel(const ScaleRuns runs, unsigned* largest) {
  unsigned mine = 0;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
       i < runs.elements; i += int64_t{gridDim.x} * kThreads) {
    const uint8_t* run = runs.first + i / runs.run_elements * runs.stride_bytes;
    const Scale scale =
        reinterpret_cast<const Scale*>(run)[i % runs.run_elements];
    mine = max(mine, __float_as_uint(Magnitude(scale)));
  }
  mine = __reduce_max_sync(~0u, mine);
  if (threadIdx.x % 32 == 0) atomicMax(largest, mine);
}

template <typename Scale>
void Launch(ScaleRuns runs, unsigned* largest, cudaStream_t stream) {
  const int64_t blocks = (runs.elements + kThreads - 1) / kThreads;
  LargestScaleKernel<Scale>
      <<<static_cast<unsigned>(std::min(blocks, kMaxBlocks)), kThreads, 0,
         stream>>>(runs, largest);
}

ScaleRuns RunsOf(const TiledWeights& weights, int64_t scale_size) {
  const TileLayout& layout = weights.layout;
  if (layout.scale_kind == ScaleKind::kRow) {
    return {reinterpret_cast<const uint8_t*>(weights.row_scales()), 0, layout.n,
            layout.n};
  }
  const int64_t row_tiles = layout.partition.row_tiles;
  const int64_t run = row_tiles * layout.scale_bytes / scale_size;
  return {weights.memory + row_tiles * layout.code_bytes, layout.stage_bytes(),
          run, run * layout.column_tiles * layout.partition.row_blocks};
}

}  // namespace

cudaError_t LaunchLargestScale(const TiledWeights& weights, float* largest,
                               cudaStream_t stream) {
  const cudaError_t cleared =
      cudaMemsetAsync(largest, 0, sizeof(*largest), stream);
  if (cleared != cudaSuccess) return cleared;
  unsigned* const bits = reinterpret_cast<unsigned*>(largest);
  switch (weights.layout.scale_kind) {
    case ScaleKind::kE4m4:
      Launch<E4m4>(RunsOf(weights, 1), bits, stream);
      break;
    case ScaleKind::kFloat16:
      Launch<__half>(RunsOf(weights, 2), bits, stream);
      break;
    case ScaleKind::kBFloat16:
      Launch<__nv_bfloat16>(RunsOf(weights, 2), bits, stream);
      break;
    case ScaleKind::kFloat32:
    case ScaleKind::kRow:
      Launch<float>(RunsOf(weights, 4), bits, stream);
      break;
  }
  return cudaGetLastError();
}

}  // namespace qgemm::cuda
