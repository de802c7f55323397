// SPDX-License-Identifier: Apache-2.0
//
// One GEMM on resident operands, in the launches that the CUDA backend makes
// for a request of that size; copies to and from the host left out.

#ifndef QGEMM_BENCH_CUDA_GPU_GEMM_H_
#define QGEMM_BENCH_CUDA_GPU_GEMM_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/bench_case.h"
#include "kernels/cuda/cublas_gemm.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/plan/kernel_path.h"
#include "kernels/cuda/plan/launch_plan.h"
#include "kernels/cuda/plan/n_chunk_plan.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/cuda/runtime/device.h"

namespace qgemm::cuda {

// The launches of a case on a layer.
struct GemmScheme {
  BenchCase bench_case;
  // In A16: kernels read it, and activations are rounded first.
  FloatType operand_type = FloatType::kFloat16;
  bool prepares = false;
  std::vector<PlannedLaunch> launches;  // of the rows
  KernelChoice choice;                  // of the case's m

  // Rows that A and C must have room for.
  int64_t padded_rows() const { return PaddedRows(bench_case.m); }
};

// Device memory: A of the case's dtype without gaps, C of the same.
struct GemmMemory {
  const uint8_t* a = nullptr;  // [padded_rows, k]
  uint8_t* c = nullptr;        // [padded_rows, n], overwritten
};

// Used by one thread at a time.
class GpuGemm {
 public:
  // On `device`, the current one. Errors: FAILED_PRECONDITION (no cuBLASLt on
  // this system).
  static absl::StatusOr<std::unique_ptr<GpuGemm>> Create(const Device& device);

  // By the thresholds that the backend has when it is given none.
  static GemmScheme SchemeOf(const BenchCase& bench_case,
                             const CudaWeights& weights,
                             const DeviceTraits& device);

  // Does what a scheme's first launch does but once, so that Enqueue may be
  // captured. Waits for the stream.
  absl::Status WarmUp(const GemmScheme& scheme,
                      const std::shared_ptr<const CudaWeights>& weights,
                      const GemmMemory& memory, cudaStream_t stream);

  absl::Status Enqueue(const GemmScheme& scheme,
                       const std::shared_ptr<const CudaWeights>& weights,
                       const GemmMemory& memory, cudaStream_t stream);

 private:
  GpuGemm(const Device& device, std::unique_ptr<CublasGemm> cublas)
      : device_(device), cublas_(std::move(cublas)) {}

  absl::Status Prepare(const GemmScheme& scheme, const PlannedLaunch& launch,
                       const GemmMemory& memory, cudaStream_t stream);
  // Quantizes or splits the rows of a launch of mode A8 or A32, and multiplies.
  absl::Status EnqueueOnlyKernel(const GemmScheme& scheme,
                                 const PlannedLaunch& launch,
                                 const CudaWeights& weights,
                                 const GemmMemory& memory, cudaStream_t stream);

  const Device device_;
  const std::unique_ptr<CublasGemm> cublas_;
  StreamScratch stream_scratch_;
  DeviceBuffer prepared_;  // activations as kernels read them
};

}  // namespace qgemm::cuda

#endif  // QGEMM_BENCH_CUDA_GPU_GEMM_H_
