// SPDX-License-Identifier: Apache-2.0
//
// PrepareRows: a thread makes eight elements, by one 16-byte store and one or
// two 16-byte loads where the input's alignment allows. AddBias: a thread has a
// column and some rows.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <type_traits>

#include "base/host_device.h"
#include "kernels/cuda/launch/rows.h"

namespace qgemm::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kElements = 8;  // of a thread
constexpr int64_t kMaxBlocks = int64_t{1} << 30;

__device__ __forceinline__ float ToFloat(float value) { return value; }
__device__ __forceinline__ float ToFloat(__half value) {
  return __half2float(value);
}
__device__ __forceinline__ float ToFloat(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

template <typename Out, typename In>
__device__ __forceinline__ Out Convert(In value) {
  if constexpr (std::is_same_v<Out, In>) {
    return value;
  } else if constexpr (std::is_same_v<Out, __half>) {
    return __float2half_rn(ToFloat(value));
  } else {
    return __float2bfloat16_rn(ToFloat(value));
  }
}

// Eight elements; aligned so that they are loaded and stored by 16 bytes.
template <typename T>
struct alignas(16) Eight {
  T elements[kElements];
};

template <typename In>
__device__ __forceinline__ Eight<In> Gather(const PrepareRowsArgs& args,
                                            int64_t row, int64_t column) {
  const In* a = static_cast<const In*>(args.a) + row * args.k;
  const bool aligned = reinterpret_cast<uintptr_t>(a + column) % 16 == 0;
  if (args.permutation == nullptr && column + kElements <= args.k && aligned) {
    return *reinterpret_cast<const Eight<In>*>(a + column);
  }
  Eight<In> eight;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const int64_t j = column + i;
    eight.elements[i] = In(0.0f);
    if (j >= args.k) continue;
    eight.elements[i] =
        a[args.permutation == nullptr ? j : args.permutation[j]];
  }
  return eight;
}

template <typename In, typename Out>
__global__ void __launch_bounds__(kThreads)
    PrepareRows(const __grid_constant__ PrepareRowsArgs args) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads +
                         static_cast<int64_t>(threadIdx.x);
  const int64_t runs = args.ldo / kElements;
  const int64_t row = thread / runs;
  if (row >= args.m) return;
  const int64_t column = thread % runs * kElements;
  const Eight<In> in = Gather<In>(args, row, column);
  Eight<Out> out;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    out.elements[i] = Convert<Out>(in.elements[i]);
  }
  *reinterpret_cast<Eight<Out>*>(static_cast<Out*>(args.out) + row * args.ldo +
                                 column) = out;
}

template <typename Out>
cudaError_t Start(const PrepareRowsArgs& args, unsigned blocks,
                  cudaStream_t stream) {
  switch (args.a_type) {
    case FloatType::kFloat32:
      PrepareRows<float, Out><<<blocks, kThreads, 0, stream>>>(args);
      break;
    case FloatType::kFloat16:
      PrepareRows<__half, Out><<<blocks, kThreads, 0, stream>>>(args);
      break;
    case FloatType::kBFloat16:
      PrepareRows<__nv_bfloat16, Out><<<blocks, kThreads, 0, stream>>>(args);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

bool IsLegal(const PrepareRowsArgs& args) {
  return args.m >= 0 && args.k >= 1 && args.ldo >= args.k &&
         args.ldo % kElements == 0 &&
         reinterpret_cast<uintptr_t>(args.out) % 16 == 0;
}

constexpr int64_t kMaxGridRows = 65535;

__device__ __forceinline__ void Store(float value, float* out) { *out = value; }
__device__ __forceinline__ void Store(float value, __half* out) {
  *out = __float2half_rn(value);
}
__device__ __forceinline__ void Store(float value, __nv_bfloat16* out) {
  *out = __float2bfloat16_rn(value);
}

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    AddBiasKernel(const AddBiasOperands operands) {
  const int64_t column = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (column >= operands.n) return;
  const float bias = operands.bias == nullptr ? 0.0f : operands.bias[column];
  Element* const c = static_cast<Element*>(operands.c);
  for (int64_t row = blockIdx.y; row < operands.m; row += gridDim.y) {
    // The sum alone where there is no bias: -0 + 0 would lose its sign.
    const float sum = operands.sums[row * operands.sums_stride + column];
    Store(operands.bias == nullptr ? sum : sum + bias,
          &c[row * operands.c_stride + column]);
  }
}

}  // namespace

cudaError_t LaunchPrepareRows(const PrepareRowsArgs& args,
                              cudaStream_t stream) {
  if (!IsLegal(args)) return cudaErrorInvalidValue;
  if (args.m == 0) return cudaSuccess;
  const int64_t threads = args.m * (args.ldo / kElements);
  const int64_t blocks = (threads + kThreads - 1) / kThreads;
  if (blocks > kMaxBlocks) return cudaErrorInvalidValue;
  switch (args.out_type) {
    case FloatType::kFloat16:
      return Start<__half>(args, static_cast<unsigned>(blocks), stream);
    case FloatType::kBFloat16:
      return Start<__nv_bfloat16>(args, static_cast<unsigned>(blocks), stream);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t LaunchAddBias(const AddBiasOperands& operands,
                          cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((operands.n + kThreads - 1) / kThreads),
                  static_cast<unsigned>(std::min(operands.m, kMaxGridRows)));
  switch (operands.c_type) {
    case FloatType::kFloat32:
      AddBiasKernel<float><<<grid, kThreads, 0, stream>>>(operands);
      break;
    case FloatType::kFloat16:
      AddBiasKernel<__half><<<grid, kThreads, 0, stream>>>(operands);
      break;
    case FloatType::kBFloat16:
      AddBiasKernel<__nv_bfloat16><<<grid, kThreads, 0, stream>>>(operands);
      break;
  }
  return cudaGetLastError();
}

}  // namespace qgemm::cuda
