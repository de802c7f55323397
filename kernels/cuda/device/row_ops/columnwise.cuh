// SPDX-License-Identifier: Apache-2.0
//
// The ops whose columns can be computed apart: a chunk of one row.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_COLUMNWISE_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_COLUMNWISE_CUH_

#include <cstdint>

#include "kernels/cuda/device/row_ops/activations.cuh"
#include "kernels/cuda/device/row_ops/elements.cuh"
#include "kernels/programs/program.h"

namespace qgemm::cuda {

// An op on elements, whatever their place.
struct ElementOp {
  OpKind kind;
  Activation activation;
  float low;
  float high;
};

// An op on one row. Its result is no wider than what it reads of x, and as wide
// as y, or y is a number for the row.
struct ColumnwiseArgs {
  ElementOp op;
  int32_t begin;  // SLICE: first column of x
  DeviceRow x;
  DeviceRow y;
  DeviceRow result;
};

template <float (*kFunction)(float), int kCount>
__device__ __forceinline__ void Apply(float (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = kFunction(x[i]);
}

template <int kCount>
__device__ __forceinline__ void Activate(Activation activation,
                                         float (&x)[kCount]) {
  switch (activation) {
    case Activation::kSilu:
      return Apply<Silu>(x);
    case Activation::kSigmoid:
      return Apply<Sigmoid>(x);
    case Activation::kGeluErf:
      return Apply<GeluErf>(x);
    case Activation::kGeluTanh:
      return Apply<GeluTanh>(x);
    case Activation::kRelu:
      return Apply<Relu>(x);
    case Activation::kTanh:
      return Apply<Tanh>(x);
  }
}

__device__ __forceinline__ float Clamp(float x, float low, float high) {
  const float raised = x < low ? low : x;
  return raised > high ? high : raised;
}

// Replaces x by the op's result before its rounding. Sums and products are not
// contracted with what follows.
template <int kCount>
__device__ __forceinline__ void ComputeElements(const ElementOp& op,
                                                const float (&y)[kCount],
                                                float (&x)[kCount]) {
  switch (op.kind) {
    case OpKind::kAdd:
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = __fadd_rn(x[i], y[i]);
      return;
    case OpKind::kMul:
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = __fmul_rn(x[i], y[i]);
      return;
    case OpKind::kAct:
      return Activate(op.activation, x);
    case OpKind::kClamp:
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = Clamp(x[i], op.low, op.high);
      return;
    default:
      return;
  }
}

// The chunk of y for the columns of a result's chunk.
template <typename Held>
__device__ __forceinline__ Chunk ReadY(const DeviceRow& y, int first, int count,
                                       const Held& held) {
  if (y.elements == nullptr) return {};
  if (y.width != 1) return held.Read(y, first, count);
  const float number = LoadElement(y, 0);
  Chunk chunk;
#pragma unroll
  for (int i = 0; i < kChunk; ++i) chunk.elements[i] = number;
  return chunk;
}

// Computes the thread's own chunk of the result, at column `first`, and keeps
// it in `held`, from where it takes operands that are there.
template <typename Held>
__device__ __forceinline__ void ComputeOwnChunk(const ColumnwiseArgs& args,
                                                int first, Held& held) {
  const int count = min(kChunk, args.result.width - first);
  const Chunk y = ReadY(args.y, first, count, held);
  Chunk x = args.begin == 0 ? held.Read(args.x, first, count)
                            : LoadChunk(args.x, first + args.begin, count);
  ComputeElements(args.op, y.elements, x.elements);
  RoundAndStore(args.result, first, count, x);
  held.Keep(first, x);
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_COLUMNWISE_CUH_
