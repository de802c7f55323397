// SPDX-License-Identifier: Apache-2.0
//
// C = A * W^T + bias in mode A8 for many rows of A; on Hopper alone. As
// prefill_gemm a block stays on its SM and multiplies tiles of C, 128 rows of W
// by 64 or 128 rows of A. Results have the bits of w4a8_gemm.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_W4A8_PREFILL_KERNEL_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_W4A8_PREFILL_KERNEL_CUH_

#include <cstdint>

#include "kernels/cuda/device/prefill_gemm/producer.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/w4a8_prefill/arguments.cuh"
#include "kernels/cuda/device/w4a8_prefill/mainloop.cuh"
#include "kernels/cuda/device/w4a8_prefill/producer.cuh"

namespace qgemm::cuda {

// The part of the warps that bring operands.
template <int kTileM>
__device__ __forceinline__ void ProduceW4A8(const W4A8PrefillArguments& args,
                                            uint32_t shared) {
  const int thread = threadIdx.x - kPrefillConsumers;
  if (thread == 0) SetUpRing(StageRing(args.prefill, shared));
  if (thread == 32) SetUpRing(PanelRing(args.prefill, shared));
  __syncwarp();
  NamedBarrierArrive(kBlockBarrier, kPrefillThreads);
  if (thread < 32) {
    LoadWeightsInOrder(args, shared, thread);
  } else if (thread == 32) {
    LoadQuantized<kTileM>(args, shared);
  }
}

template <int kTileM>
__global__ void __launch_bounds__(kPrefillThreads, 1)
    W4A8Prefill(const __grid_constant__ W4A8PrefillArguments args) {
#if QGEMM_HAS_WGMMA
  extern __shared__ __align__(1024) char shared[];
  LaunchDependents();
  if (threadIdx.x >= kPrefillConsumers) {
    ShrinkRegisters<40>();
    ProduceW4A8<kTileM>(args, SharedAddress(shared));
  } else {
    GrowRegisters<232>();
    NamedBarrier(kBlockBarrier, kPrefillThreads);  // the barriers
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    W4A8PrefillMainloop<kTileM>(args, shared, warp).Run();
  }
#endif
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_W4A8_PREFILL_KERNEL_CUH_
