// SPDX-License-Identifier: Apache-2.0
//
// Rows of requests between pinned host memory and a launch, moved by
// kernels instead of the DMA copy engines: one launch for many requests,
// started and waited for without events.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_HOST_ROWS_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_HOST_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/launch/batch_stamps.h"

namespace qgemm::cuda {

// Runs of rows that one launch moves, at most.
inline constexpr int kMaxHostRuns = 64;
// Every address and size is a multiple of this.
inline constexpr int64_t kHostRunAlignment = 16;

// Bytes of one request.
struct HostRun {
  uint8_t* host = nullptr;  // pinned, which the GPU can address
  int64_t offset = 0;       // from the start of the device's buffer
  int64_t bytes = 0;
};

struct HostRuns {
  HostRun runs[kMaxHostRuns];
  int count = 0;
};

// Brings the runs into `device_buffer`. Errors: cudaErrorInvalidValue.
cudaError_t LaunchGatherRows(const HostRuns& runs, uint8_t* device_buffer,
                             BatchProgress* progress, cudaStream_t stream);

// Takes the runs out of `device_buffer`, then writes `stamps`, pinned
// host memory. Errors: cudaErrorInvalidValue.
struct ScatterRowsArgs {
  const uint8_t* device_buffer = nullptr;
  BatchProgress* progress = nullptr;
  BatchStamps* stamps = nullptr;
};
cudaError_t LaunchScatterRows(const HostRuns& runs, const ScatterRowsArgs& args,
                              cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_HOST_ROWS_H_
