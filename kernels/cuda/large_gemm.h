// SPDX-License-Identifier: Apache-2.0
//
// Many rows: by the wide family's fused kernels, or by slabs of weights
// (tuning/slab_plan.h), dequantized into scratch and multiplied by cuBLASLt;
// the next slab is dequantized meanwhile. Dense layers go through it for every
// M.

#ifndef QGEMM_KERNELS_CUDA_LARGE_GEMM_H_
#define QGEMM_KERNELS_CUDA_LARGE_GEMM_H_

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/cublas/lt_matmul.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/runtime/device_buffer.h"
#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/tuning/batch_plan.h"
#include "kernels/cuda/tuning/device_traits.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {

// What one stream's calls need beside it; grows as they do.
struct LargeGemmScratch {
  DeviceBuffer workspace;  // cuBLASLt's
  // Slabs, dequantized; a call of one slab has the first.
  std::array<DeviceBuffer, 2> slabs;
  DeviceBuffer sums;  // a slab of C in fp32
  // Where slabs after the first are dequantized. It starts behind the call's
  // stream, which waits for it, so that the caller needs to know of the latter
  // alone, in a capture too.
  Stream side;
  Event side_may_write;
  Event slab_is_ready;
};

// Rows that A and C must have room for, beyond m; their contents are of no
// account.
int64_t PaddedLargeRows(int64_t m);

// Elements of a row of A: k and padding.
int64_t LargeRowStride(int64_t k);

// What A must be given in, for activations of `type` (kFloat16, kBFloat16).
// A dense layer of the other type is multiplied in bf16, which holds both.
FloatType LargeOperandType(const CudaWeights& weights, FloatType type);

// Which kernels multiply.
enum class LargeKernels : uint8_t {
  kFastest,  // by estimate
  kWide,     // the wide family where it multiplies the layer, else cuBLASLt
  kCublas,
};

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
  LargeKernels kernels = LargeKernels::kFastest;
  LargeGemmScratch* scratch = nullptr;
  cudaStream_t stream = nullptr;
};

// Those that the policy leaves.
LargeKernels LargeKernelsOf(FamilyChoice choice);

// Used by one thread at a time, on one device.
class LargeGemm {
 public:
  // On the calling thread's current device. Starts the library, which takes
  // some ten milliseconds, so that no request does. Errors: FAILED_PRECONDITION
  // (no cuBLASLt on this system), RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<LargeGemm>> Create();

  // C = A * W^T + bias. Enqueues and returns. With LtSums::kUnsplit and m <= 64
  // a row's bits depend on that row alone; else on m too. Waits for the stream
  // and allocates only where scratch grows or a shape is the first of its
  // kind. Errors: RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL.
  absl::Status Enqueue(const LargeGemmCall& call);

  // Whether Enqueue leaves the call to the wide family, which needs no scratch.
  bool GoesWide(const LargeGemmCall& call) const;

 private:
  // What one call comes to.
  struct Scheme;

  LargeGemm(const DeviceTraits& device, std::unique_ptr<LtMatmul> matmul)
      : device_(device), matmul_(std::move(matmul)) {}

  // Multiplies zeros once in each type.
  absl::Status WarmUp();
  Scheme SchemeOf(const LargeGemmCall& call) const;
  static absl::Status GrowScratch(const LargeGemmCall& call,
                                  const Scheme& scheme);
  static absl::Status ConvertSlab(const LargeGemmCall& call,
                                  const Scheme& scheme, int64_t slab,
                                  cudaStream_t stream);
  absl::Status MultiplySlab(const LargeGemmCall& call, const Scheme& scheme,
                            int64_t slab);

  const DeviceTraits device_;
  const std::unique_ptr<LtMatmul> matmul_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LARGE_GEMM_H_
