// SPDX-License-Identifier: Apache-2.0
//
// C = A * W^T + bias for few tokens, weights of 2 to 5 bits, 16-bit
// activations.
//
// A block owns a row block and a part of K. One thread asks the copy engine for
// stages (codes, scales and zeros; the activations of 128 columns), which come
// through a ring in shared memory; the other warps multiply in groups of four,
// a row tile each; groups with the same rows take turns at the stages. Weights
// are the A operand of the MMA, tokens its columns. Where scales change every
// 32 or 64 columns in fp16, bf16 or fp32, a block of 32 columns is summed by
// the tensor core, then scaled and added in fp32 (wqa16_block_adder.cuh); else
// it sums more columns (wqa16_chain_adder.cuh). Blocks of a cluster share K and
// send each other sums.
//
// The order of arithmetic depends on the layer's partition alone, so a row's
// bits depend neither on M nor on its neighbours.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_WQA16_GEMM_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_WQA16_GEMM_CUH_

#include <cstdint>

#include "kernels/cuda/device/decode.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/wqa16_arguments.cuh"
#include "kernels/cuda/device/wqa16_consumer.cuh"
#include "kernels/cuda/device/wqa16_reduce.cuh"
#include "kernels/cuda/device/wqa16_ring.cuh"

namespace qgemm::cuda {

// What a block of threads is made of.
struct BlockShape {
  int row_groups;
  int consumers;  // threads that multiply; four warps more bring stages

  __device__ __forceinline__ explicit BlockShape(const GemmArguments& args)
      : row_groups(RowGroups(args.row_tiles)),
        consumers(row_groups * args.column_warps * kGroupWarps * 32) {}
};

// Sets up the barriers; called by the four warps that bring stages.
template <int kTokens>
__device__ __forceinline__ void SetUpBarriers(const GemmArguments& args,
                                              const BlockWork& work,
                                              const Ring& ring, int thread) {
  const int row_groups = RowGroups(args.row_tiles);
  // One lane each: lanes of a warp would take turns.
  if (thread % 32 == 0) {
    for (int slot = thread / 32; slot < args.slots; slot += kGroupWarps) {
      BarrierInit(ring.Full(slot), kProducerArrivals);
      BarrierInit(ring.Empty(slot), row_groups * kGroupWarps * kReleasingLanes);
    }
    if (thread == 0 && args.splits > 1) {
      BarrierInit(ring.Full(args.slots), 1);
      BarrierArriveExpect(ring.Full(args.slots),
                          Reducer<kTokens>::ReceivedBytesOf(args, work));
    }
    BarrierInitFence();
  }
  __syncwarp();
}

// The part of the warps that bring stages. The barriers of a cluster do not
// count threads that have left.
template <int kTokenTiles>
__device__ __forceinline__ void Produce(const GemmArguments& args,
                                        const SharedPlan& plan,
                                        const BlockWork& work, const Ring& ring,
                                        const char* shared) {
  constexpr int kThreads = kGroupWarps * 32;
  const BlockShape block(args);
  const int thread = threadIdx.x - block.consumers;
  SetUpBarriers<kTokenTiles * 8>(args, work, ring, thread);
  NamedBarrierArrive(kBlockBarrier, block.consumers + kThreads);
  NamedBarrier(kProducersBarrier, kThreads);
  if (args.splits > 1) ClusterArrive();
  const uint32_t base = SharedAddress(shared);
  const Producer<kTokenTiles> producer(args, work, ring, base + plan.weights,
                                       base + plan.activations);
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
__device__ __forceinline__ void TouchArguments(const GemmArguments& args) {
  asm volatile("" ::"l"(args.c), "l"(args.bias), "l"(args.row_scales),
               "l"(args.n), "f"(args.factor), "r"(args.m),
               "r"(static_cast<int>(args.result)),
               "r"(static_cast<int>(args.c_by_fours)));
}

// The part of the warps that multiply.
template <int kCodes, ScaleKind kScale, bool kZeros, typename T,
          int kTokenTiles>
__device__ __forceinline__ void Consume(const GemmArguments& args,
                                        const SharedPlan& plan,
                                        const BlockWork& work, const Ring& ring,
                                        char* shared) {
  constexpr int kTokens = kTokenTiles * 8;
  const BlockShape block(args);
  if (args.splits > 1) ClusterArrive();
  TouchArguments(args);
  if constexpr (kCodes != kTernaryCodes) {
    FillTable<kCodes, T>(args.codebook, args.table_scale,
                         kZeros ? IntegerBase<T>::kValue : 0.0f, threadIdx.x,
                         block.consumers, shared);
    NamedBarrier(kConsumersBarrier, block.consumers);  // the table is there
  }
  NamedBarrier(kBlockBarrier, block.consumers + kGroupWarps * 32);
  // Taken from one lane, so that the compiler knows it for all.
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  const int group = warp / kGroupWarps;
  const int turn = group / block.row_groups;
  Consumer<kCodes, kScale, kZeros, T, kTokenTiles> consumer(
      args, plan, shared,
      group % block.row_groups * kGroupWarps + warp % kGroupWarps);
  consumer.Run(ring, {turn, args.column_warps, work.end - work.begin});
  NamedBarrier(kConsumersBarrier, block.consumers);
  consumer.StoreSums(reinterpret_cast<float*>(shared) +
                     turn * kTokens * SumStride(args.row_tiles));
  NamedBarrier(kConsumersBarrier, block.consumers);
  Reducer<kTokens>(args, work, plan, shared, block.consumers).Run();
}

template <int kCodes, ScaleKind kScale, bool kZeros, typename T,
          int kTokenTiles>
__global__ void __launch_bounds__(kMaxThreads, 1)
    Wqa16Gemm(const __grid_constant__ GemmArguments args) {
  extern __shared__ __align__(1024) char shared[];
  // Many tokens need more registers than all threads can have.
  constexpr bool kUneven = kTokenTiles >= 4;
  const SharedPlan plan = PlanOf(args, kCodes, kTokenTiles * 8);
  const BlockWork work = WorkOf(args);
  const Ring ring{SharedAddress(shared) + plan.barriers, args.slots};
  AllowNextKernel();
  if (threadIdx.x >= BlockShape(args).consumers) {
    if constexpr (kUneven) ShrinkRegisters<24>();
    Produce<kTokenTiles>(args, plan, work, ring, shared);
  } else {
    if constexpr (kUneven) GrowRegisters<112>();
    Consume<kCodes, kScale, kZeros, T, kTokenTiles>(args, plan, work, ring,
                                                    shared);
  }
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WQA16_GEMM_CUH_
