// SPDX-License-Identifier: Apache-2.0
//
// Kernels that go wrong on purpose, for tests of what follows
// (Backend::InjectFault).

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_FAULT_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_FAULT_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace qgemm::cuda {

// Holds the stream until *release, pinned host memory, is not 0, or for ten
// minutes.
cudaError_t LaunchHang(const uint32_t* release, cudaStream_t stream);

// Writes to an address that is nobody's: the context is lost.
cudaError_t LaunchIllegalAccess(cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_FAULT_H_
