// SPDX-License-Identifier: Apache-2.0
//
// cuBLAS's time for the same product: on dense weights, and on weights
// that are written out dense first. Timed as the backend's kernels are.

#ifndef QGEMM_BENCH_CUDA_CUBLAS_BASELINE_H_
#define QGEMM_BENCH_CUDA_CUBLAS_BASELINE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/bench_case.h"
#include "bench/cuda/graph_timer.h"
#include "bench/cuda/random_arena.h"
#include "bench/cuda/weights_copies.h"
#include "kernels/cuda/cublas/lt_matmul.h"
#include "kernels/cuda/runtime/buffers.h"

namespace qgemm::cuda {

// The means that baselines share with the measurer. Borrowed.
struct BaselineEnvironment {
  const GraphTimer* timer = nullptr;
  RandomArena* activations = nullptr;
  cudaStream_t stream = nullptr;
  int64_t rotate_bytes = 0;
  int64_t l2_bytes = 0;
};

// Used by one thread at a time. A case of fp32 is compared with bf16 operands
// and fp32 results: what the backend rounds to. Cases whose rows of C are no
// multiple of 16 bytes have no baseline.
class CublasBaseline {
 public:
  // Errors: FAILED_PRECONDITION (no cuBLASLt on this system).
  static absl::StatusOr<std::unique_ptr<CublasBaseline>> Create(
      const BaselineEnvironment& environment);

  // On dense weights; measured once for a shape, M and dtype, in replays of at
  // least so many launches: what works as long meets the same clocks. `c` has
  // room for [m, n] of the case's dtype and is overwritten.
  absl::StatusOr<std::optional<absl::Duration>> Dense(
      const BenchCase& bench_case, int64_t launches, uint8_t* c);

  // With operands and results of fp32, multiplied in fp32; measured once for a
  // shape and M.
  absl::StatusOr<std::optional<absl::Duration>> DenseInFp32(
      const BenchCase& bench_case);

  // Writes a quantized layer out to device memory as a whole, then
  // multiplies.
  absl::StatusOr<std::optional<absl::Duration>> Dequantized(
      const BenchCase& bench_case, const WeightsCopies& copies, uint8_t* c);

 private:
  // Operands' type last.
  using DenseKey = std::tuple<int64_t, int64_t, int64_t, FloatType, FloatType>;
  struct Product;

  CublasBaseline(const BaselineEnvironment& environment,
                 std::unique_ptr<LtMatmul> matmul, DeviceBuffer workspace)
      : environment_(environment),
        matmul_(std::move(matmul)),
        workspace_(std::move(workspace)) {}

  absl::StatusOr<std::optional<absl::Duration>> TimeOf(const Product& product);
  absl::StatusOr<absl::Duration> MeasureDense(const Product& product);
  absl::Status Multiply(const Product& product, const void* a, const void* w);

  const BaselineEnvironment environment_;
  const std::unique_ptr<LtMatmul> matmul_;
  const DeviceBuffer workspace_;
  RandomArena dense_weights_{0x1p-6f};
  DeviceBuffer dequantized_;
  DeviceBuffer fp32_results_;
  std::map<DenseKey, absl::Duration> known_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_BENCH_CUDA_CUBLAS_BASELINE_H_
