// SPDX-License-Identifier: Apache-2.0
//
// Activations of mode A32: splits rows into bf16 parts that add up to them.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_SPLIT_ROWS_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_SPLIT_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/layout/a32_layout.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {

// out = the parts (SplitA32) of a[i, permutation[j]], laid out as
// A32LayoutOf(m, k). Columns from k on are zero; rows beyond m stay as they
// are.
struct SplitRowsArgs {
  const void* a = nullptr;  // device, [m, k] without gaps
  FloatType a_type = FloatType::kFloat32;
  int64_t m = 0;
  int64_t k = 0;
  const int32_t* permutation = nullptr;  // device, [k], or null for none
  A32Pairs pairs = A32Pairs::kNeighbours;
  uint8_t* out = nullptr;  // device, 16-byte aligned, not within a
};

// Enqueues on `stream` and returns. Starts while the kernel before runs, waits
// for it, and lets the next one start (PDL). Errors: cudaErrorInvalidValue.
cudaError_t LaunchSplitRows(const SplitRowsArgs& args, cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_SPLIT_ROWS_H_
