// SPDX-License-Identifier: Apache-2.0
//
// The description of a GPU beside figures that were measured on it.

#ifndef QGEMM_BENCH_CUDA_GPU_MACHINE_H_
#define QGEMM_BENCH_CUDA_GPU_MACHINE_H_

#include "absl/status/statusor.h"
#include "bench/measurer.h"
#include "kernels/matrix/backend.h"

namespace qgemm::cuda {

// The current device, with the driver, cuBLASLt and compilers beside it.
absl::StatusOr<BenchMachine> DescribeMachine(const BackendDescription& backend);

}  // namespace qgemm::cuda

#endif  // QGEMM_BENCH_CUDA_GPU_MACHINE_H_
