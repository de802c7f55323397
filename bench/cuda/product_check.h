// SPDX-License-Identifier: Apache-2.0
//
// Checks that a measured kernel computes the right product: every element
// written, and a sample of them right.

#ifndef QGEMM_BENCH_CUDA_PRODUCT_CHECK_H_
#define QGEMM_BENCH_CUDA_PRODUCT_CHECK_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/bench_case.h"
#include "bench/cuda/gpu_gemm.h"
#include "bench/sampled_rows.h"
#include "kernels/cuda/runtime/buffers.h"

namespace qgemm::cuda {

// Used by one thread at a time. Its functions wait for the stream.
class ProductCheck {
 public:
  static absl::StatusOr<ProductCheck> Create(cudaStream_t stream);

  // Fills C with NaN.
  absl::Status Poison(const BenchCase& bench_case, uint8_t* c) const;

  // DATA_LOSS if an element of C is not finite.
  absl::Status CheckWritten(const BenchCase& bench_case,
                            const uint8_t* c) const;

  // Compares some rows of C, in the columns that `layer` has the weights of,
  // with the product in fp64, within the tolerance of kernels/matrix.
  // DATA_LOSS names the worst element.
  absl::Status CheckSample(const BenchCase& bench_case,
                           const SampledRows& layer,
                           const GemmMemory& memory) const;

 private:
  ProductCheck(cudaStream_t stream, DeviceBuffer counter)
      : stream_(stream), counter_(std::move(counter)) {}

  cudaStream_t stream_;
  DeviceBuffer counter_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_BENCH_CUDA_PRODUCT_CHECK_H_
