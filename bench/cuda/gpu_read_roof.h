// SPDX-License-Identifier: Apache-2.0
//
// The read roof of a GPU.

#ifndef QGEMM_BENCH_CUDA_GPU_READ_ROOF_H_
#define QGEMM_BENCH_CUDA_GPU_READ_ROOF_H_

#include <cuda_runtime_api.h>

#include "absl/status/statusor.h"
#include "bench/cuda/graph_timer.h"
#include "bench/measurer.h"

namespace qgemm::cuda {

// Reads 1 GiB in graph replays, over a few ways to spread the loads; the best
// of them counts. `timer` works on `stream`.
absl::StatusOr<ReadRoof> MeasureGpuReadRoof(int sm_count,
                                            const GraphTimer& timer,
                                            cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_BENCH_CUDA_GPU_READ_ROOF_H_
