// SPDX-License-Identifier: Apache-2.0
//
// Spoils the process's CUDA context.

#ifndef QGEMM_TESTS_KERNELS_CUDA_TRAP_H_
#define QGEMM_TESTS_KERNELS_CUDA_TRAP_H_

#include <cuda_runtime_api.h>

namespace qgemm::cuda {

// Launches a kernel that faults, and does not wait for it.
cudaError_t Trap();

}  // namespace qgemm::cuda

#endif  // QGEMM_TESTS_KERNELS_CUDA_TRAP_H_
