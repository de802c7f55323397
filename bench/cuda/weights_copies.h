// SPDX-License-Identifier: Apache-2.0
//
// Copies of a resident layer, which launches visit in turn, so that no weight
// is in the L2 when it is read.

#ifndef QGEMM_BENCH_CUDA_WEIGHTS_COPIES_H_
#define QGEMM_BENCH_CUDA_WEIGHTS_COPIES_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_weights.h"

namespace qgemm::cuda {

using WeightsCopies = std::vector<std::shared_ptr<const CudaWeights>>;

// The layer itself and copies of it, `count` in all. Copying is enqueued on
// `stream`. RESOURCE_EXHAUSTED.
absl::StatusOr<WeightsCopies> CopyWeights(
    std::shared_ptr<const CudaWeights> layer, int64_t count,
    cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_BENCH_CUDA_WEIGHTS_COPIES_H_
