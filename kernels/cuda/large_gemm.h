// SPDX-License-Identifier: Apache-2.0
//
// The large-M family: slabs of weights, dequantized into scratch that stays
// in the second-level cache, multiplied by cuBLASLt. Dense layers go through
// it for every M.

#ifndef QGEMM_KERNELS_CUDA_LARGE_GEMM_H_
#define QGEMM_KERNELS_CUDA_LARGE_GEMM_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/cublas/lt_matmul.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/runtime/device_buffer.h"
#include "kernels/cuda/runtime/pinned_buffer.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {

// Device memory of one stream; grows to what its calls need.
struct LargeGemmScratch {
  DeviceBuffer workspace;  // cuBLASLt's
  DeviceBuffer weights;    // a slab, dequantized
  DeviceBuffer sums;       // a slab of C in fp32
};

// Rows that A and C must have room for, beyond m; their contents are of no
// account.
int64_t PaddedLargeRows(int64_t m);

// Elements of a row of A: k and padding.
int64_t LargeRowStride(int64_t k);

// What A must be given in, for activations of `type` (kFloat16, kBFloat16).
// A dense layer of the other type is multiplied in bf16, which holds both.
FloatType LargeOperandType(const CudaWeights& weights, FloatType type);

struct LargeGemmCall {
  std::shared_ptr<const CudaWeights> weights;
  // Device, [PaddedLargeRows(m), LargeRowStride(k)], zero from column k on, in
  // the layer's column order; aligned to 16 bytes.
  const void* a = nullptr;
  FloatType operand_type = FloatType::kFloat16;
  // Device, [PaddedLargeRows(m), n], aligned to 256 bytes; rows from m on may
  // be overwritten.
  void* c = nullptr;
  FloatType c_type = FloatType::kFloat16;
  int64_t m = 0;
  LtSums sums = LtSums::kSplit;
  LargeGemmScratch* scratch = nullptr;
  cudaStream_t stream = nullptr;
};

// Used by one thread at a time, on one device.
class LargeGemm {
 public:
  // Errors: FAILED_PRECONDITION (no cuBLASLt on this system).
  static absl::StatusOr<std::unique_ptr<LargeGemm>> Create();

  // C = A * W^T + bias. Enqueues and returns; but a quantized layer's first
  // call waits for the stream, to learn the range of its scales. With
  // LtSums::kUnsplit and m <= 64 a row's bits depend on that row alone; else
  // on m too. Allocates only where scratch grows or a shape is the first of
  // its kind. Errors: RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL.
  absl::Status Enqueue(const LargeGemmCall& call);

 private:
  // The power of two that brings a layer's weights into the range of fp16.
  // Known once a layer; forgotten when the layer is gone.
  struct KnownFactor {
    std::weak_ptr<const CudaWeights> weights;
    float factor;
  };

  LargeGemm(std::unique_ptr<LtMatmul> matmul, DeviceBuffer largest,
            PinnedBuffer largest_on_host)
      : matmul_(std::move(matmul)),
        largest_(std::move(largest)),
        largest_on_host_(std::move(largest_on_host)) {}

  absl::StatusOr<float> FactorOf(const LargeGemmCall& call);
  absl::StatusOr<float> MeasureFactor(const LargeGemmCall& call);
  absl::Status MultiplySlab(const LargeGemmCall& call, int64_t row_begin,
                            int64_t rows, float factor);

  const std::unique_ptr<LtMatmul> matmul_;
  const DeviceBuffer largest_;
  const PinnedBuffer largest_on_host_;
  std::unordered_map<const CudaWeights*, KnownFactor> factors_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LARGE_GEMM_H_
