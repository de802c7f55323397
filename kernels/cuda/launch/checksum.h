// SPDX-License-Identifier: Apache-2.0
//
// The checksum of device memory.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_CHECKSUM_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_CHECKSUM_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace qgemm::cuda {

// Writes MemoryChecksum of [data, data + size_bytes) to `sum` (device). `data`
// is aligned to 16 bytes. Enqueues on `stream`; both stay borrowed until it
// passes.
cudaError_t LaunchChecksum(const uint8_t* data, int64_t size_bytes,
                           uint64_t* sum, cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_CHECKSUM_H_
