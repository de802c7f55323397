// SPDX-License-Identifier: Apache-2.0
//
// The CUDA backend: weights repacked on one GPU, fused kernels for few rows,
// dequantized slabs and cuBLASLt for many.

#ifndef QGEMM_KERNELS_CUDA_CUDA_BACKEND_H_
#define QGEMM_KERNELS_CUDA_CUDA_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/cuda/tuning/row_moves.h"
#include "kernels/cuda/tuning/tuning.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

struct CudaBackendOptions {
  // Which GPU, as the CUDA runtime counts them.
  int device = 0;
  // All layers together, in bytes; 0 = the GPU's memory.
  int64_t max_weights_bytes = 0;
  // All leases together, in bytes of page-locked host memory; 0 = the
  // machine's memory.
  int64_t max_staging_bytes = 0;
  // Staging buffers kept for reuse, in bytes.
  int64_t max_pooled_staging_bytes = int64_t{1} << 30;
  // Shapes and batches beyond these are refused.
  int64_t max_n = int64_t{1} << 20;
  int64_t max_k = int64_t{1} << 20;
  int64_t max_batch_rows = 8192;
  // Which family of kernels multiplies, for debugging: "auto" by the number
  // of rows, "small", "wide" or "large" whatever that is.
  std::string kernel = "auto";
  // Where "auto" draws the line. A tuning of another device is used, and a
  // warning logged.
  cuda::Tuning tuning = cuda::DefaultTuning();
  // Who moves rows between the host and the GPU.
  cuda::RowMoves row_moves = cuda::RowMoves::kBySize;
};

// Without cuBLASLt on the system layers that have no small family (dense ones;
// of 5 bits where a block has less than 163 KiB of shared memory) are refused,
// and others go through that family for any number of rows.
// Errors: INVALID_ARGUMENT (an illegal option), FAILED_PRECONDITION (no GPU,
// no driver, a GPU that is too old, or kernel = wide or large without
// cuBLASLt).
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(
    const CudaBackendOptions& options);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_CUDA_CUDA_BACKEND_H_
