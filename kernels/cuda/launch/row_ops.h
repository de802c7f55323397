// SPDX-License-Identifier: Apache-2.0
//
// Launches of the row-wise ops of programs but for GEMM
// (docs/programs.md#operations). Elements are read to fp32, computed in fp32
// or fp64, and rounded to the result's type once.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_ROW_OPS_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_ROW_OPS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/runtime/device.h"
#include "kernels/matrix/types.h"
#include "kernels/programs/program.h"

namespace qgemm::cuda {

// A value in device memory: [rows, width] row-major without gaps, or one row
// that stands for all.
struct DeviceMatrix {
  void* elements = nullptr;  // null where an op has none
  FloatType type = FloatType::kFloat32;
  bool one_row = false;
  int32_t width = 0;
};

// An op on all rows of a launch. Of all values of a launch none overlaps
// another: memory of a value that is not read any more is used again only in a
// later launch.
struct DeviceRowOp {
  OpKind kind = OpKind::kAdd;  // not kGemm
  Activation activation = Activation::kSilu;
  float low = 0;
  float high = 0;
  float eps = 0;
  int32_t group = 0;  // RMS_NORM, as in ProgramOp
  int32_t begin = 0;  // SLICE; 0 in other ops
  DeviceMatrix x;
  DeviceMatrix y;  // as wide as the result, or 1
  DeviceMatrix norm_weight;
  DeviceMatrix norm_bias;
  DeviceMatrix result;
  // TOP_K: [rows, k]; result is fp32 and result.width is k. Either may be null.
  int32_t* ids = nullptr;
};

inline constexpr int kMaxRowOps = 16;
// The largest k of TOP_K.
inline constexpr int kMaxTopK = 1024;

// Ops of one launch, which run in order: an op may read results of those
// before it.
struct RowOps {
  DeviceRowOp ops[kMaxRowOps];
  int count = 0;
  int64_t rows = 0;
};

// Enqueues on `stream` and returns; operands stay borrowed until it passes. It
// starts while the kernel before it in the stream still runs, waits for it
// before it reads, and lets the next one start (PDL); may be captured into a
// graph. A row's bits depend on that row alone, and are those of the ops
// launched one by one. Errors: cudaErrorInvalidValue (no ops or rows, a GEMM, a
// k beyond kMaxTopK or the width of x, an x of TOP_K beyond 2^20 columns).
cudaError_t LaunchRowOps(const Device& device, const RowOps& ops,
                         cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_ROW_OPS_H_
