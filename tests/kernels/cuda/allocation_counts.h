// SPDX-License-Identifier: Apache-2.0
//
// Counts what a test's binary takes of the CUDA runtime's memory: the linker
// puts these functions before cudaMalloc and its kin (BUILD).

#ifndef QGEMM_TESTS_KERNELS_CUDA_ALLOCATION_COUNTS_H_
#define QGEMM_TESTS_KERNELS_CUDA_ALLOCATION_COUNTS_H_

#include <cstdint>

namespace qgemm::cuda {

// Calls so far that took or gave back memory. Thread-safe.
int64_t DeviceAllocationCount();
int64_t DeviceReleaseCount();
int64_t PinnedAllocationCount();
int64_t PinnedReleaseCount();

}  // namespace qgemm::cuda

#endif  // QGEMM_TESTS_KERNELS_CUDA_ALLOCATION_COUNTS_H_
