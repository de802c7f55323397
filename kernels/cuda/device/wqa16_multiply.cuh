// SPDX-License-Identifier: Apache-2.0
//
// One step of multiplication: a row tile's 16 columns by the tokens of a
// stage. On Hopper four warps do it together and it goes on by itself until it
// is waited for; elsewhere a warp does it at once, and waiting is nothing.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_WQA16_MULTIPLY_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_WQA16_MULTIPLY_CUH_

#include <cstdint>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/wgmma.cuh"
#include "kernels/cuda/tuning/shared_plan.h"

namespace qgemm::cuda {

#if QGEMM_HAS_WGMMA

// Tokens by 64 columns in shared memory (Producer says how they stand).
class TokenPanel {
 public:
  __device__ __forceinline__ explicit TokenPanel(uint32_t shared)
      : descriptor_(SwizzledDescriptor(KeepInRegister(shared))) {}

  // The panel that is so many bytes further on.
  __device__ __forceinline__ TokenPanel At(int bytes) const {
    TokenPanel panel = *this;
    panel.descriptor_ = descriptor_.Advanced(bytes >> 4);
    return panel;
  }

  // d = (kAdd ? d : 0) + a * columns 16 step to 16 step + 15.
  template <typename T, int kTokenTiles, bool kAdd>
  __device__ __forceinline__ void Multiply(float (&d)[kTokenTiles * 4],
                                           const uint32_t (&a)[4],
                                           int step) const {
    Wgmma<T, kTokenTiles, kAdd>::Run(d, a,
                                     descriptor_.Advanced(2 * step).value);
  }

 private:
  SharedDescriptor descriptor_;
};

// Between the last access of operands or products and the next steps.
__device__ __forceinline__ void BeginSteps() { WgmmaFence(); }
__device__ __forceinline__ void CommitSteps() { WgmmaCommit(); }
// Until all but the last kPending commits are done.
template <int kPending>
__device__ __forceinline__ void WaitForSteps() {
  WgmmaWait<kPending>();
}

#else

class TokenPanel {
 public:
  __device__ __forceinline__ explicit TokenPanel(uint32_t shared)
      : shared_(shared) {}

  __device__ __forceinline__ TokenPanel At(int bytes) const {
    return TokenPanel(shared_ + bytes);
  }

  template <typename T, int kTokenTiles, bool kAdd>
  __device__ __forceinline__ void Multiply(float (&d)[kTokenTiles * 4],
                                           const uint32_t (&a)[4],
                                           int step) const {
    const int lane = threadIdx.x % 32;
    const int row = lane & 7;
    const uint32_t piece = (2 * step + (lane >> 3 & 1)) ^ row;
#pragma unroll
    for (int tile = 0; tile < kTokenTiles; ++tile) {
      uint32_t b[2];
      LoadMatrices(shared_ + (tile * 8 + row) * kPanelTokenBytes + piece * 16,
                   b);
      float sums[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] = kAdd ? d[tile * 4 + i] : 0;
      Mma16816<T>(sums, a, b[0], b[1]);
#pragma unroll
      for (int i = 0; i < 4; ++i) d[tile * 4 + i] = sums[i];
    }
  }

 private:
  uint32_t shared_;
};

__device__ __forceinline__ void BeginSteps() {}
__device__ __forceinline__ void CommitSteps() {}
template <int kPending>
__device__ __forceinline__ void WaitForSteps() {}

#endif

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WQA16_MULTIPLY_CUH_
