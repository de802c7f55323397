// SPDX-License-Identifier: Apache-2.0
//
// One multiplication by cuBLASLt, its algorithm chosen once for each shape.

#ifndef QGEMM_KERNELS_CUDA_CUBLAS_LT_MATMUL_H_
#define QGEMM_KERNELS_CUDA_CUBLAS_LT_MATMUL_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/cublas/cublas_library.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {

// Strides are in elements, from row to row.
struct LtShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t a_stride = 0;
  int64_t w_stride = 0;
  int64_t c_stride = 0;
  FloatType operand_type = FloatType::kFloat16;  // kFloat16 or kBFloat16
  FloatType c_type = FloatType::kFloat16;

  friend bool operator<(const LtShape& a, const LtShape& b) {
    return a.Fields() < b.Fields();
  }

 private:
  std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, FloatType,
             FloatType>
  Fields() const {
    return {m, n, k, a_stride, w_stride, c_stride, operand_type, c_type};
  }
};

// Device memory, each aligned to kOperandAlignment.
struct LtOperands {
  const void* a;    // [m, a_stride]
  const void* w;    // [n, w_stride]
  void* c;          // [m, c_stride], overwritten
  float alpha;      // multiplies the sums
  void* workspace;  // kWorkspaceBytes, of the stream alone
};

// Computes C = alpha * A * W^T with sums in fp32, on the current device. Equal
// calls give equal bits: a shape's algorithm is chosen at its first use and
// kept. Used by one thread at a time.
class LtMatmul {
 public:
  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;
  static constexpr int64_t kOperandAlignment = 16;

  // Errors: FAILED_PRECONDITION (no cuBLASLt on this system).
  static absl::StatusOr<std::unique_ptr<LtMatmul>> Create();

  LtMatmul(const LtMatmul&) = delete;
  LtMatmul& operator=(const LtMatmul&) = delete;
  ~LtMatmul();

  // Enqueues on `stream` and returns; the operands stay borrowed until it
  // passes. Allocates only at a shape's first use.
  // Errors: UNIMPLEMENTED (no algorithm for such a shape), RESOURCE_EXHAUSTED.
  absl::Status Enqueue(const LtShape& shape, const LtOperands& operands,
                       cudaStream_t stream);

 private:
  struct Plan;

  LtMatmul(const CublasLibrary& library, cublasLtHandle_t handle);

  absl::StatusOr<const Plan*> PlanOf(const LtShape& shape);

  const CublasLibrary library_;
  const cublasLtHandle_t handle_;
  std::map<LtShape, std::unique_ptr<Plan>> plans_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_CUBLAS_LT_MATMUL_H_
