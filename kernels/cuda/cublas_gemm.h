// SPDX-License-Identifier: Apache-2.0
//
// The cuBLASLt path: weights are dequantized into scratch, an N-chunk at a time
// (plan/n_chunk_plan.h), and multiplied by cuBLASLt while the next chunk is
// dequantized. Dense layers take it for every m.

#ifndef QGEMM_KERNELS_CUDA_CUBLAS_GEMM_H_
#define QGEMM_KERNELS_CUDA_CUBLAS_GEMM_H_

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/cublas/lt_matmul.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/layout/device_traits.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {

// Scratch memory of the GEMMs of one stream, which run one after the other;
// buffers grow on demand.
struct StreamScratch {
  // Sums that blocks of the prefill kernel and of mode A8 hand over
  // (GemmOperands::handed, W4A8Operands::handed).
  DeviceBuffer handed;

  DeviceBuffer workspace;  // cuBLASLt's
  // Dequantized N-chunks; a call of one chunk has the first.
  std::array<DeviceBuffer, 2> n_chunks;
  DeviceBuffer sums;  // a chunk of C in fp32
  // Dequantizes chunks after the first. It starts behind the call's stream,
  // which waits for it, so that the caller needs to know of the latter alone,
  // in a capture too.
  Stream side;
  Event side_may_write;
  Event n_chunk_is_ready;

  // Makes sure of `handed` for GEMMs of `stream`.
  absl::Status ReserveHanded(cudaStream_t stream);
};

// The type that A must be given in, for activations of `type` (kFloat16,
// kBFloat16). A dense layer of the other type is multiplied in bf16, which
// holds both.
FloatType OperandType(const CudaWeights& weights, FloatType type);

// True if C goes through fp32 sums: cuBLASLt stores fp32 or the type of the
// operands, aligned, and adds no fp32 bias.
bool NeedsFp32Sums(const CudaWeights& weights, FloatType operand_type,
                   FloatType c_type);

struct CublasGemmCall {
  std::shared_ptr<const CudaWeights> weights;
  // Device, [PaddedRows(m), OperandStride(k)], zero from column k on, in the
  // layer's column order; aligned to 16 bytes.
  const void* a = nullptr;
  FloatType operand_type = FloatType::kFloat16;
  // Device, [PaddedRows(m), n], aligned to 256 bytes; rows from m on may be
  // overwritten.
  void* c = nullptr;
  FloatType c_type = FloatType::kFloat16;
  int64_t m = 0;
  StreamScratch* scratch = nullptr;
  cudaStream_t stream = nullptr;
};

// Used by one thread at a time, on one device.
class CublasGemm {
 public:
  // On `device`, the calling thread's current one. Starts the library, which
  // takes some ten milliseconds, so that no request does. Errors:
  // FAILED_PRECONDITION (no cuBLASLt on this system), RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<CublasGemm>> Create(
      const DeviceTraits& device);

  // C = A * W^T + bias. Enqueues and returns. With m <= 64 a row's bits depend
  // on that row alone; else on m too. Waits for the stream and allocates only
  // where scratch grows or a shape is the first of its kind. Errors:
  // RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL.
  absl::Status Enqueue(const CublasGemmCall& call);

 private:
  // The steps of one call.
  struct Scheme;

  CublasGemm(const DeviceTraits& device, std::unique_ptr<LtMatmul> matmul)
      : device_(device), matmul_(std::move(matmul)) {}

  // Multiplies zeros once in each type.
  absl::Status WarmUp();
  Scheme SchemeOf(const CublasGemmCall& call) const;
  static absl::Status GrowScratch(const CublasGemmCall& call,
                                  const Scheme& scheme);
  static absl::Status ConvertNChunk(const CublasGemmCall& call,
                                    const Scheme& scheme, int64_t n_chunk,
                                    cudaStream_t stream);
  absl::Status MultiplyNChunk(const CublasGemmCall& call, const Scheme& scheme,
                              int64_t n_chunk);

  const DeviceTraits device_;
  const std::unique_ptr<LtMatmul> matmul_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_CUBLAS_GEMM_H_
