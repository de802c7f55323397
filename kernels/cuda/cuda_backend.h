// SPDX-License-Identifier: Apache-2.0
//
// The CUDA backend: weights repacked on one GPU, fused decode and prefill
// kernels, dequantization and cuBLASLt for layers and requests that these do
// not multiply.

#ifndef QGEMM_KERNELS_CUDA_CUDA_BACKEND_H_
#define QGEMM_KERNELS_CUDA_CUDA_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_options.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

// Without cuBLASLt on the system layers that have no decode kernel (dense ones;
// of 5 bits where a block has less than 163 KiB of shared memory) are refused,
// and others go to that kernel for any number of rows.
// Errors: INVALID_ARGUMENT (an illegal option), NOT_FOUND (the tuning file),
// FAILED_PRECONDITION (no GPU, no driver, a GPU that is too old, or kernel =
// prefill or cublas without cuBLASLt).
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(
    const CudaOptions& options);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_CUDA_CUDA_BACKEND_H_
