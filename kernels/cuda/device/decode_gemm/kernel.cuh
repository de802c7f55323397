// SPDX-License-Identifier: Apache-2.0
//
// C = A * W^T + bias for few rows of A, weights of 2 to 5 bits, 16-bit
// activations.
//
// A block owns a row block and a part of K. Up to three lanes issue TMA
// loads of stages (codes, scales and zeros; the activations of 128 columns),
// which come through a ring in shared memory; the other warps multiply in
// groups of four, a row tile each; groups with the same rows alternate along K.
// Weights are the A operand of the MMA, rows of A its columns. Where scales
// change every 32 or 64 columns in fp16, bf16 or fp32, a block of 32 columns is
// summed by the tensor core, then scaled and added in fp32
// (BlockScaledMainloop); else it sums more columns (ScaledMainloop). Blocks of
// a cluster share K and send each other sums.
//
// The order of arithmetic depends on the layer's tile config alone, so a row's
// bits depend neither on M nor on its neighbours.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_KERNEL_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_KERNEL_CUH_

#include <cstdint>

#include "kernels/cuda/device/decode.cuh"
#include "kernels/cuda/device/decode_gemm/epilogue.cuh"
#include "kernels/cuda/device/decode_gemm/mainloop.cuh"
#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/pipeline.cuh"
#include "kernels/cuda/device/ptx.cuh"

namespace qgemm::cuda {

// Makeup of a block of threads.
struct BlockShape {
  int n_groups;
  int consumers;  // threads that multiply; four warps more bring stages

  __device__ __forceinline__ explicit BlockShape(const GemmArguments& args)
      : n_groups(NGroups(args.n_tiles)),
        consumers(n_groups * args.k_warps * kGroupWarps * 32) {}
};

// Sets up the barriers; called by the four warps that bring stages.
__device__ __forceinline__ void SetUpBarriers(const GemmArguments& args,
                                              const BlockWork& work,
                                              const Ring& ring, int thread) {
  const int n_groups = NGroups(args.n_tiles);
  // One lane each: lanes of a warp would run one after another.
  if (thread % 32 == 0) {
    for (int slot = thread / 32; slot < args.slots; slot += kGroupWarps) {
      BarrierInit(ring.Full(slot), kProducerArrivals);
      BarrierInit(ring.Empty(slot), n_groups * kGroupWarps * kReleasingLanes);
    }
    if (thread == 0 && args.split_k > 1) {
      BarrierInit(ring.Received(), 1);
      BarrierArriveExpect(ring.Received(), ReceivedBytesOf(args, work));
    }
    BarrierInitFence();
  }
  __syncwarp();
}

// The part of the warps that bring stages. The barriers of a cluster do not
// count threads that have left.
template <int kMTiles, typename Wait, typename Source>
__device__ __forceinline__ void Produce(const GemmArguments& args,
                                        const DecodeSmemLayout& smem,
                                        const BlockWork& work, const Ring& ring,
                                        const char* shared, const Wait& wait,
                                        const Source& source) {
  constexpr int kThreads = kGroupWarps * 32;
  const BlockShape block(args);
  const int thread = threadIdx.x - block.consumers;
  SetUpBarriers(args, work, ring, thread);
  NamedBarrierArrive(kBlockBarrier, block.consumers + kThreads);
  NamedBarrier(kProducersBarrier, kThreads);
  if (args.split_k > 1) ClusterArrive();
  const uint32_t base = SharedAddress(shared);
  const DecodeProducer<kMTiles, Wait, Source> producer(
      args, work, ring, base + smem.weights, base + smem.activations, wait,
      source);
#if __CUDA_ARCH__ >= 900
  if (thread % 32 == 0 && thread / 32 < producer.kLanes) {
    producer.Run(thread / 32);
  }
#else
  if (thread < 32) producer.Run(thread);
#endif
}

// Reads what the end of a block's work needs, so that it need not wait for
// the constant cache then.
__device__ __forceinline__ void PrefetchKernelParams(
    const GemmArguments& args) {
  asm volatile("" ::"l"(args.c), "l"(args.bias), "l"(args.row_scales),
               "l"(args.n), "f"(args.factor), "r"(args.m),
               "r"(static_cast<int>(args.result)),
               "r"(static_cast<int>(args.vectorized_store)));
}

// Fills the decode table, and waits for the barriers of the ring.
template <int kCodes, typename T>
__device__ __forceinline__ void SetUpTable(const GemmArguments& args,
                                           const BlockShape& block,
                                           char* shared) {
  if constexpr (TableBytes(kCodes) > 0) {
    FillTable<kCodes, T>(args.codebook, args.table_scale, threadIdx.x,
                         block.consumers, shared);
    NamedBarrier(kConsumersBarrier, block.consumers);  // the table is there
  }
  NamedBarrier(kBlockBarrier, block.consumers + kGroupWarps * 32);
}

// The part of the warps that multiply, up to the epilogue. `Steps` has what
// they do besides: BeforeMainloop() and BeforeEpilogue().
template <int kCodes, ScaleKind kScale, bool kZeros, typename T, int kMTiles,
          typename Steps>
__device__ __forceinline__ void Multiply(const GemmArguments& args,
                                         const DecodeSmemLayout& smem,
                                         const BlockWork& work,
                                         const Ring& ring, char* shared,
                                         const Steps& steps) {
  constexpr int kTileM = kMTiles * 8;
  const BlockShape block(args);
  if (args.split_k > 1) ClusterArrive();
  PrefetchKernelParams(args);
  SetUpTable<kCodes, T>(args, block, shared);
  steps.BeforeMainloop();
  // Taken from one lane, so that the compiler knows it for all.
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  const int group = warp / kGroupWarps;
  const int turn = group / block.n_groups;
  DecodeConsumer<kCodes, kScale, kZeros, T, kMTiles> consumer(
      args, smem, shared,
      group % block.n_groups * kGroupWarps + warp % kGroupWarps);
  consumer.Run(ring, {turn, args.k_warps, work.end - work.begin});
  NamedBarrier(kConsumersBarrier, block.consumers);
  consumer.StoreSums(reinterpret_cast<float*>(shared) +
                     turn * kTileM * SumStride(args.n_tiles));
  steps.BeforeEpilogue();
  NamedBarrier(kConsumersBarrier, block.consumers);
}

// Activations are there once the kernel before is done.
struct WaitForKernelBefore {
  __device__ __forceinline__ void operator()() const { GridDependencyWait(); }
};

// The multiplication and nothing else.
struct NoMoreSteps {
  __device__ __forceinline__ void BeforeMainloop() const {}
  __device__ __forceinline__ void BeforeEpilogue() const {}
};

template <int kCodes, ScaleKind kScale, bool kZeros, typename T, int kMTiles>
__global__ void __launch_bounds__(kMaxThreads, 1)
    DecodeGemm(const __grid_constant__ GemmArguments args) {
  extern __shared__ __align__(1024) char shared[];
  // Many rows of A need more registers than all threads can have.
  constexpr bool kUneven = kMTiles >= 4;
  const DecodeSmemLayout smem = SmemLayoutOf(args, kCodes, kMTiles * 8);
  const BlockWork work = WorkOf(args, blockIdx.x);
  const Ring ring{SharedAddress(shared) + smem.barriers, args.slots};
  const int consumers = BlockShape(args).consumers;
  LaunchDependents();
  if (threadIdx.x >= consumers) {
    if constexpr (kUneven) ShrinkRegisters<24>();
    Produce<kMTiles>(args, smem, work, ring, shared, WaitForKernelBefore(),
                     OneSource(args, work));
  } else {
    if constexpr (kUneven) GrowRegisters<112>();
    Multiply<kCodes, kScale, kZeros, T, kMTiles>(args, smem, work, ring, shared,
                                                 NoMoreSteps());
    DecodeEpilogue<kMTiles * 8, StoreResults>(
        args, args, work, smem, shared, ring.Received(), {consumers, false}, {})
        .Run();
  }
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_KERNEL_CUH_
