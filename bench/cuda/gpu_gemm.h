// SPDX-License-Identifier: Apache-2.0
//
// One GEMM on resident operands, in the launches that the CUDA backend makes
// for a request of that size; copies to and from the host left out.

#ifndef QGEMM_BENCH_CUDA_GPU_GEMM_H_
#define QGEMM_BENCH_CUDA_GPU_GEMM_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/bench_case.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/large_gemm.h"
#include "kernels/cuda/runtime/device_buffer.h"
#include "kernels/cuda/tuning/batch_plan.h"

namespace qgemm::cuda {

// How a case is run on a layer.
struct GemmScheme {
  BenchCase bench_case;
  FloatType operand_type = FloatType::kFloat16;  // what kernels read
  bool prepares = false;      // activations are rounded first
  std::vector<Piece> pieces;  // of the rows
  // Dense layers have that of many rows alone.
  Family family = Family::kSmall;

  // Rows that A and C must have room for.
  int64_t padded_rows() const { return PaddedLargeRows(bench_case.m); }
};

// Device memory: A of the case's dtype without gaps, C of the same.
struct GemmMemory {
  const uint8_t* a = nullptr;  // [padded_rows, k]
  uint8_t* c = nullptr;        // [padded_rows, n], overwritten
};

// Used by one thread at a time.
class GpuGemm {
 public:
  // Errors: FAILED_PRECONDITION (no cuBLASLt on this system).
  static absl::StatusOr<std::unique_ptr<GpuGemm>> Create();

  // By the thresholds that the backend has when it is given none.
  static GemmScheme SchemeOf(const BenchCase& bench_case,
                             const CudaWeights& weights);

  // "small", "wide" or "large": whose kernels multiply the scheme's rows.
  std::string NameOfKernels(
      const GemmScheme& scheme,
      const std::shared_ptr<const CudaWeights>& weights) const;

  // Does what a scheme's first launch does but once, so that Enqueue may be
  // captured. Waits for the stream.
  absl::Status WarmUp(const GemmScheme& scheme,
                      const std::shared_ptr<const CudaWeights>& weights,
                      const GemmMemory& memory, cudaStream_t stream);

  absl::Status Enqueue(const GemmScheme& scheme,
                       const std::shared_ptr<const CudaWeights>& weights,
                       const GemmMemory& memory, cudaStream_t stream);

 private:
  explicit GpuGemm(std::unique_ptr<LargeGemm> large)
      : large_(std::move(large)) {}

  absl::Status Prepare(const GemmScheme& scheme, const Piece& piece,
                       const GemmMemory& memory, cudaStream_t stream);

  const std::unique_ptr<LargeGemm> large_;
  LargeGemmScratch large_scratch_;
  DeviceBuffer prepared_;  // activations as kernels read them
};

}  // namespace qgemm::cuda

#endif  // QGEMM_BENCH_CUDA_GPU_GEMM_H_
