// SPDX-License-Identifier: Apache-2.0
//
// A block of 128 threads makes 64 rows of A and 8 of B at random, 16 columns at
// a time, and keeps two sums of their products.

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/wgmma.cuh"
#include "tests/kernels/cuda/mma_bits.h"

namespace qgemm::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kBlocks = 64;
static_assert(kMmaRoundOutputs == kBlocks * kThreads * 4,
              "a thread has four outputs");

#if QGEMM_HAS_WGMMA

// The next of a sequence (a 64-bit LCG, its upper half mixed).
__device__ uint32_t Next(uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  uint32_t bits = static_cast<uint32_t>(state >> 32);
  bits ^= bits >> 15;
  bits *= 0x2c1b3c6du;
  return bits ^ bits >> 12;
}

// Mantissa bits and the largest exponent of a finite number.
template <typename T>
struct Format;
template <>
struct Format<__half> {
  static constexpr int kMantissa = 10;
  static constexpr uint32_t kMaxExponent = 30;
};
template <>
struct Format<__nv_bfloat16> {
  static constexpr int kMantissa = 7;
  static constexpr uint32_t kMaxExponent = 254;
};

template <typename T>
__device__ uint32_t Draw(MmaOperands operands, uint64_t& state) {
  constexpr int kMantissa = Format<T>::kMantissa;
  constexpr uint32_t kMask = (1 << kMantissa) - 1;
  constexpr uint32_t kBias = Format<T>::kMaxExponent / 2;
  const uint32_t bits = Next(state);
  const uint32_t sign = bits & 0x8000;
  const uint32_t choice = bits >> 16;
  const uint32_t wide = 1 + choice % Format<T>::kMaxExponent;
  switch (operands) {
    case MmaOperands::kUniform: {
      const T value = static_cast<T>(static_cast<float>(bits) * 0x1p-31f - 1);
      return reinterpret_cast<const uint16_t&>(value);
    }
    case MmaOperands::kCancellation:
      return sign | kBias << kMantissa | (bits & 3);
    case MmaOperands::kSubnormal:
      return sign | (bits & kMask);
    case MmaOperands::kSpecial:
      if (choice % 64 < 2) {
        return sign | (Format<T>::kMaxExponent + 1) << kMantissa | choice % 64;
      }
      [[fallthrough]];
    default:
      return sign | wide << kMantissa | (bits & kMask);
  }
}

template <typename T>
__device__ uint32_t DrawPair(MmaOperands operands, uint64_t& state) {
  const uint32_t low = Draw<T>(operands, state);
  return low | Draw<T>(operands, state) << 16;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    Compare(MmaComparison comparison, MmaCounts* counts) {
  // 8 rows of 64 columns as the decode kernel has activations, of which the
  // first 16 are used.
  __shared__ __align__(1024) uint32_t panel[8 * 32];
  const int lane = threadIdx.x % 32;
  const int row = lane / 4;
  const int pair = lane % 4;
  uint64_t state = (comparison.seed + blockIdx.x * kThreads + threadIdx.x) *
                   0x9e3779b97f4a7c15u;
  unsigned long long differing = 0;
  for (int round = 0; round < comparison.rounds; ++round) {
    float by_mma[4] = {};
    float by_wgmma[4] = {};
    for (int step = 0; step < comparison.steps; ++step) {
      uint32_t a[4];
      for (uint32_t& word : a) word = DrawPair<T>(comparison.operands, state);
      __syncthreads();
      if (threadIdx.x < 32) {
        for (int piece = 0; piece < 2; ++piece) {
          panel[row * 32 + (piece ^ row) * 4 + pair] =
              DrawPair<T>(comparison.operands, state);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      }
      __syncthreads();
      uint32_t b[2];
      LoadMatrices(SharedAddress(panel) + (lane & 7) * 128 +
                       ((lane >> 3 & 1) ^ (lane & 7)) * 16,
                   b);
      Mma16816<T>(by_mma, a, b[0], b[1]);
      WgmmaFence();
      Wgmma<T, 8>::template Run<true>(
          by_wgmma, a, SwizzledDescriptor(SharedAddress(panel)).value);
      WgmmaCommit();
      WgmmaWait<0>();
      PinRegisters(by_wgmma);
    }
    for (int i = 0; i < 4; ++i) {
      differing += __float_as_uint(by_mma[i]) != __float_as_uint(by_wgmma[i]) &&
                   !(isnan(by_mma[i]) && isnan(by_wgmma[i]));
    }
  }
  atomicAdd(&counts->outputs, 4ull * comparison.rounds);
  atomicAdd(&counts->differing, differing);
}

#else

template <typename T>
__global__ void Compare(MmaComparison, MmaCounts*) {}

#endif

}  // namespace

cudaError_t CompareMmaBits(const MmaComparison& comparison, MmaCounts& counts) {
  MmaCounts* on_device = nullptr;
  cudaError_t error = cudaMalloc(&on_device, sizeof(MmaCounts));
  if (error != cudaSuccess) return error;
  error = cudaMemset(on_device, 0, sizeof(MmaCounts));
  if (error == cudaSuccess) {
    if (comparison.bf16) {
      Compare<__nv_bfloat16><<<kBlocks, kThreads>>>(comparison, on_device);
    } else {
      Compare<__half><<<kBlocks, kThreads>>>(comparison, on_device);
    }
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) {
    error = cudaMemcpy(&counts, on_device, sizeof(MmaCounts),
                       cudaMemcpyDeviceToHost);
  }
  const cudaError_t freed = cudaFree(on_device);
  return error != cudaSuccess ? error : freed;
}

}  // namespace qgemm::cuda
