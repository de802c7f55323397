// SPDX-License-Identifier: Apache-2.0
//
// C = A * W^T + bias for many tokens, weights of 2 to 5 bits, 16-bit
// activations; on Hopper alone.
//
// A block stays on its multiprocessor and multiplies tiles of C, 128 rows of W
// by 64 to 256 tokens, one after the other (tuning/wide_order.h). Two
// warps ask the copy engine for activations and weights; two groups of four
// multiply, 64 rows each, weights decoded into registers as the A operand.
// While a tile is stored the next one's operands come.
//
// Each row of C is summed along K in one order, whatever m is. Tensor cores
// truncate as they add: of up to 128 tokens they add 1024 columns at most
// and fp32 additions the rest; of more, whose sums leave no registers for that,
// they add all of K, as cuBLAS does.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_WQA16_WIDE_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_WQA16_WIDE_CUH_

#include <cstdint>

#include "kernels/cuda/device/decode.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/wqa16_wide_arguments.cuh"
#include "kernels/cuda/device/wqa16_wide_consumer.cuh"
#include "kernels/cuda/device/wqa16_wide_producer.cuh"

namespace qgemm::cuda {

// Called by one lane of a warp that brings operands.
__device__ __forceinline__ void SetUpRing(const Ring& ring) {
  for (int slot = 0; slot < ring.slots; ++slot) {
    BarrierInit(ring.Full(slot), 1);
    BarrierInit(ring.Empty(slot), kWideConsumers / 32 * kReleasingLanes);
  }
  BarrierInitFence();
}

// The part of the warps that bring operands.
template <int kTokens>
__device__ __forceinline__ void ProduceWide(const WideArguments& args,
                                            uint32_t shared) {
  const int thread = threadIdx.x - kWideConsumers;
  if (thread == 0) SetUpRing(StageRing(args, shared));
  if (thread == 32) SetUpRing(PanelRing(args, shared));
  __syncwarp();
  NamedBarrierArrive(kBlockBarrier, kWideThreads);
  if (thread < 32) {
    BringWeights(args, shared, thread);
  } else if (thread == 32) {
    BringPanels<kTokens>(args, shared);
  }
}

#if QGEMM_HAS_WGMMA

// The part of the warps that multiply.
template <int kCodes, ScaleKind kScale, bool kZeros, typename T, int kTokens>
__device__ __forceinline__ void ConsumeWide(const WideArguments& args,
                                            char* shared) {
  if constexpr (kCodes != kTernaryCodes) {
    FillTable<kCodes, T>(args.gemm.codebook, args.gemm.table_scale,
                         kZeros ? IntegerBase<T>::kValue : 0.0f, threadIdx.x,
                         kWideConsumers, shared);
  }
  NamedBarrier(kBlockBarrier, kWideThreads);  // the table and the barriers
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  WideConsumer<kCodes, kScale, kZeros, T, kTokens>(args, shared, warp).Run();
}

#endif

template <int kCodes, ScaleKind kScale, bool kZeros, typename T, int kTokens>
__global__ void __launch_bounds__(kWideThreads, 1)
    Wqa16Wide(const __grid_constant__ WideArguments args) {
#if QGEMM_HAS_WGMMA
  extern __shared__ __align__(1024) char shared[];
  AllowNextKernel();
  if (threadIdx.x >= kWideConsumers) {
    ShrinkRegisters<40>();
    ProduceWide<kTokens>(args, SharedAddress(shared));
  } else {
    GrowRegisters<232>();
    ConsumeWide<kCodes, kScale, kZeros, T, kTokens>(args, shared);
  }
#endif
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WQA16_WIDE_CUH_
