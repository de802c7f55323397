// SPDX-License-Identifier: Apache-2.0
//
// A block of threads moves a part of one run. Both kernels start while the one
// before them still runs, and let the next one start.

#include <algorithm>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/launch/batch_stamps.cuh"
#include "kernels/cuda/launch/host_rows.h"

namespace qgemm::cuda {
namespace {

constexpr int kThreads = 256;
// Loads of a thread that are under way at a time: a PCIe read takes about a
// microsecond.
constexpr int kLoads = 4;
constexpr int64_t kBlockBytes = kThreads * kLoads * kHostRunAlignment;

// This block's part of its run.
__device__ __forceinline__ void Move(const uint8_t* from, uint8_t* to,
                                     int64_t bytes) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kBlockBytes +
                        static_cast<int64_t>(threadIdx.x) * kHostRunAlignment;
  uint4 values[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int64_t at = first + i * kThreads * kHostRunAlignment;
    if (at < bytes) {
      values[i] = __ldcv(reinterpret_cast<const uint4*>(from + at));
    }
  }
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int64_t at = first + i * kThreads * kHostRunAlignment;
    if (at < bytes) *reinterpret_cast<uint4*>(to + at) = values[i];
  }
}

__global__ void __launch_bounds__(kThreads)
    GatherRows(const __grid_constant__ HostRuns runs, uint8_t* device_buffer,
               BatchProgress* progress) {
  LaunchDependents();
  StampGatherBegin(progress);
  const HostRun& run = runs.runs[blockIdx.y];
  Move(run.host, device_buffer + run.offset, run.bytes);
  StampGatherEnd(progress);
}

__global__ void __launch_bounds__(kThreads)
    ScatterRows(const __grid_constant__ HostRuns runs,
                const __grid_constant__ ScatterRowsArgs args) {
  GridDependencyWait();
  const ScatterStart start = StartScatter(args.progress);
  const HostRun& run = runs.runs[blockIdx.y];
  Move(args.device_buffer + run.offset, run.host, run.bytes);
  StampScatter(args.progress, start, args.stamps);
}

bool IsLegal(const HostRuns& runs, const uint8_t* device_buffer) {
  if (runs.count < 1 || runs.count > kMaxHostRuns) return false;
  if (reinterpret_cast<uintptr_t>(device_buffer) % kHostRunAlignment != 0) {
    return false;
  }
  return std::all_of(runs.runs, runs.runs + runs.count, [](const HostRun& run) {
    return run.bytes > 0 && run.bytes % kHostRunAlignment == 0 &&
           run.offset % kHostRunAlignment == 0 &&
           reinterpret_cast<uintptr_t>(run.host) % kHostRunAlignment == 0;
  });
}

dim3 GridOf(const HostRuns& runs) {
  int64_t most = 0;
  for (int i = 0; i < runs.count; ++i) {
    most = std::max(most, runs.runs[i].bytes);
  }
  return dim3(static_cast<unsigned>((most + kBlockBytes - 1) / kBlockBytes),
              static_cast<unsigned>(runs.count));
}

}  // namespace

cudaError_t LaunchGatherRows(const HostRuns& runs, uint8_t* device_buffer,
                             BatchProgress* progress, cudaStream_t stream) {
  if (!IsLegal(runs, device_buffer)) return cudaErrorInvalidValue;
  GatherRows<<<GridOf(runs), kThreads, 0, stream>>>(runs, device_buffer,
                                                    progress);
  return cudaGetLastError();
}

cudaError_t LaunchScatterRows(const HostRuns& runs, const ScatterRowsArgs& args,
                              cudaStream_t stream) {
  if (!IsLegal(runs, args.device_buffer)) return cudaErrorInvalidValue;
  cudaLaunchConfig_t config = {};
  config.gridDim = GridOf(runs);
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, ScatterRows, runs, args);
}

}  // namespace qgemm::cuda
