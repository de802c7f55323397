// SPDX-License-Identifier: Apache-2.0
//
// C = A * W^T + bias for many rows of A, weights of 2 to 5 bits, 16-bit
// activations; on Hopper alone.
//
// A block stays on its SM and multiplies tiles of C, 128 rows of W
// by 64 to 256 rows of A, or parts of them along K, one after the other
// (tile_scheduler.h). Two warps ask TMA for activations and weights; two groups
// of four multiply, 64 rows each, weights decoded into registers as the A
// operand. While a tile is stored the next one's operands come.
//
// Two blocks of a cluster may have pieces together, each half of the columns:
// they then send each other the sums of half of the rows of A, and each goes on
// with its half.
//
// Each row of C is summed along K in one order, which depends on m in that
// tiles may be split: sums of parts are added in fp32, to the last part's the
// others' in the order of K. Tensor cores truncate as they add: of up to 128
// rows of A they add 1024 columns at most and fp32 additions the rest; of more,
// whose sums leave no registers for that, they add all of a part, as cuBLAS
// does.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_KERNEL_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_KERNEL_CUH_

#include <cstdint>

#include "kernels/cuda/device/decode.cuh"
#include "kernels/cuda/device/prefill_gemm/arguments.cuh"
#include "kernels/cuda/device/prefill_gemm/mainloop.cuh"
#include "kernels/cuda/device/prefill_gemm/producer.cuh"
#include "kernels/cuda/device/ptx.cuh"

namespace qgemm::cuda {

// The part of the warps that bring operands.
template <int kTileM>
__device__ __forceinline__ void ProducePrefill(const PrefillArguments& args,
                                               uint32_t shared) {
  const int thread = threadIdx.x - kPrefillConsumers;
  if (thread == 0) SetUpRing(StageRing(args, shared));
  if (thread == 32) {
    SetUpRing(PanelRing(args, shared));
    BarrierInit(shared + args.smem.invitation_offset, 1);
    BarrierInitFence();
  }
  __syncwarp();
  if (args.pairs != 0) ClusterArrive();
  NamedBarrierArrive(kBlockBarrier, kPrefillThreads);
  if (thread < 32) {
    LoadWeights(args, shared, thread);
  } else if (thread < 64) {
    if (args.pairs != 0) ClusterWait();  // the other block has barriers
    if (thread == 32) PanelLoader<kTileM>(args, shared).Run();
  }
}

#if QGEMM_HAS_WGMMA

// The part of the warps that multiply.
template <int kCodes, ScaleKind kScale, bool kZeros, typename T, int kTileM>
__device__ __forceinline__ void ConsumePrefill(const PrefillArguments& args,
                                               char* shared) {
  if (args.pairs != 0) ClusterArrive();
  if constexpr (TableBytes(kCodes) > 0) {
    FillTable<kCodes, T>(args.gemm.codebook, args.gemm.table_scale, threadIdx.x,
                         kPrefillConsumers, shared);
  }
  NamedBarrier(kBlockBarrier, kPrefillThreads);  // the table and the barriers
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  PrefillMainloop<kCodes, kScale, kZeros, T, kTileM>(args, shared, warp).Run();
}

#endif

template <int kCodes, ScaleKind kScale, bool kZeros, typename T, int kTileM>
__global__ void __launch_bounds__(kPrefillThreads, 1)
    PrefillGemm(const __grid_constant__ PrefillArguments args) {
#if QGEMM_HAS_WGMMA
  extern __shared__ __align__(1024) char shared[];
  LaunchDependents();
  if (threadIdx.x >= kPrefillConsumers) {
    ShrinkRegisters<40>();
    ProducePrefill<kTileM>(args, SharedAddress(shared));
  } else {
    GrowRegisters<232>();
    ConsumePrefill<kCodes, kScale, kZeros, T, kTileM>(args, shared);
  }
#endif
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_KERNEL_CUH_
