// SPDX-License-Identifier: Apache-2.0
//
// Launches the bench's own kernels: a pure read, random values, and a count of
// values that are not finite.

#ifndef QGEMM_BENCH_CUDA_PROBE_KERNELS_H_
#define QGEMM_BENCH_CUDA_PROBE_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/matrix/types.h"

namespace qgemm::cuda {

// Bytes that a pure read takes at a time: its memory is a multiple.
inline constexpr int64_t kReadTileBytes = int64_t{32} << 10;

// Spread of a pure read over the device.
struct ReadGrid {
  int loads_in_flight = 4;  // of 16 bytes, of a thread: 4 or 8
  int blocks = 0;           // of 256 threads
};

// Reads `bytes` of device memory with loads that allocate nothing in the first
// level cache. `sink`, one word, is there so that no load is left out. Enqueues
// on `stream`. cudaErrorInvalidValue: another grid, or a size between tiles.
cudaError_t LaunchRead(const void* memory, int64_t bytes, const ReadGrid& grid,
                       uint32_t* sink, cudaStream_t stream);

// Stores `count` random values, of either sign, none zero, their magnitudes
// below `magnitude` and spread evenly. Equal calls store equal values.
// Enqueues on `stream`.
cudaError_t LaunchFillRandom(FloatType type, int64_t count, float magnitude,
                             void* out, cudaStream_t stream);

// Adds to `*counter` how many of `count` values are infinite or NaN. Enqueues
// on `stream`.
cudaError_t LaunchCountNonFinite(FloatType type, const void* values,
                                 int64_t count, uint32_t* counter,
                                 cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_BENCH_CUDA_PROBE_KERNELS_H_
