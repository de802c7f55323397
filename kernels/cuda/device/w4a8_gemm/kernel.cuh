// SPDX-License-Identifier: Apache-2.0
//
// C = A * W^T + bias in mode A8: weights of 4 bits, activations of 8
// (docs/formats.md#compute-modes), any number of rows of A.
//
// A block owns a row block of W, a part of K and up to 64 rows of A, as one of
// the decode kernel does. Two warps bring stages of 128 columns through a ring
// in shared memory; the others multiply, a row tile of W each; warps of the
// same row tile alternate along K. Blocks of a cluster share K and send each
// other sums. Weights come before the kernel before this one is done.
//
// The order of arithmetic depends on the layer's tile config alone, so a row's
// bits depend neither on M nor on its neighbours.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_W4A8_GEMM_KERNEL_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_W4A8_GEMM_KERNEL_CUH_

#include <cstdint>

#include "kernels/cuda/device/decode_gemm/epilogue.cuh"
#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/pipeline.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/w4a8_gemm/mainloop.cuh"
#include "kernels/cuda/device/w4a8_gemm/producer.cuh"
#include "kernels/cuda/layout/q8_layout.h"
#include "kernels/cuda/plan/w4a8_plan.h"

namespace qgemm::cuda {

// Warps that multiply, at most, and those that bring stages.
inline constexpr int kW4A8MaxThreads = (kMaxNTiles + kW4A8ProducerWarps) * 32;

// The makeup of a block of threads, its work, and its shared memory.
struct W4A8Block {
  BlockWork work;
  DecodeSmemLayout smem;
  Ring ring;
  char* shared;
  int consumers;  // threads that multiply; the warps behind bring stages

  __device__ __forceinline__ W4A8Block(const GemmArguments& args, int tile_m,
                                       char* memory)
      : work(WorkOf(args, blockIdx.x)),
        smem(W4A8SmemLayoutOf(
            {tile_m, args.stage_bytes, CeilDiv(args.k_tiles, args.split_k),
             args.n_tiles, args.split_k, args.k_warps},
            args.slots)),
        ring{SharedAddress(memory) + smem.barriers, args.slots},
        shared(memory),
        consumers(args.n_tiles * args.k_warps * 32) {}

  __device__ __forceinline__ int threads() const {
    return consumers + kW4A8ProducerWarps * 32;
  }
  __device__ __forceinline__ int stages() const {
    return work.end - work.begin;
  }
};

// Called by the first warp that brings stages.
__device__ __forceinline__ void SetUpBarriers(const GemmArguments& args,
                                              const W4A8Block& block) {
  const int lane = threadIdx.x % 32;
  const Ring& ring = block.ring;
  for (int slot = lane; slot < args.slots; slot += 32) {
    BarrierInit(ring.Full(slot), kW4A8ProducerArrivals);
    BarrierInit(ring.Empty(slot), args.n_tiles * kReleasingLanes);
  }
  if (lane == 0 && args.split_k > 1) {
    BarrierInit(ring.Full(args.slots), 1);
    BarrierArriveExpect(ring.Full(args.slots),
                        ReceivedBytesOf(args, block.work));
  }
  BarrierInitFence();
  __syncwarp();
}

// The part of the warps that bring stages.
template <int kMTiles>
__device__ __forceinline__ void Produce(const GemmArguments& args,
                                        const W4A8Block& block) {
  const int warp = (threadIdx.x - block.consumers) / 32;
  if (warp == 0) SetUpBarriers(args, block);
  NamedBarrierArrive(kBlockBarrier, block.threads());
  NamedBarrier(kProducersBarrier, kW4A8ProducerWarps * 32);
  if (args.split_k > 1) ClusterArrive();
  constexpr int kActivationBytes = kMTiles * kQ8TileBytes;
  const uint32_t shared = SharedAddress(block.shared);
  if (warp == 0) {
    const int64_t first = block.work.n_block * args.k_tiles + block.work.begin;
    BringStages({args.tiles + first * args.stage_bytes,
                 shared + block.smem.weights, args.stage_bytes},
                block.ring, block.stages(),
                args.stage_bytes + kActivationBytes);
  } else {
    const int64_t first = int64_t{blockIdx.y} * args.k_tiles + block.work.begin;
    GridDependencyWait();
    BringStages({static_cast<const uint8_t*>(args.a) + first * kActivationBytes,
                 shared + block.smem.activations, kActivationBytes},
                block.ring, block.stages(), 0);
  }
}

// The part of the warps that multiply, up to the epilogue.
template <int kMTiles>
__device__ __forceinline__ void Multiply(const GemmArguments& args,
                                         const W4A8Block& block) {
  if (args.split_k > 1) ClusterArrive();
  NamedBarrier(kBlockBarrier, block.threads());
  // Taken from one lane, so that the compiler knows it for all.
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  const int turn = warp / args.n_tiles;
  float* const sums = reinterpret_cast<float*>(block.shared) +
                      turn * kMTiles * 8 * SumStride(args.n_tiles);
  W4A8Consumer<kMTiles> consumer(args, block.smem, block.shared,
                                 warp % args.n_tiles);
  consumer.Run(block.ring, {turn, args.k_warps, block.stages()}, sums);
  NamedBarrier(kConsumersBarrier, block.consumers);
  consumer.StoreSums(sums);
  NamedBarrier(kConsumersBarrier, block.consumers);
}

template <int kMTiles>
__global__ void __launch_bounds__(kW4A8MaxThreads, 1)
    W4A8Gemm(const __grid_constant__ GemmArguments args) {
  extern __shared__ __align__(128) char shared[];
  const W4A8Block block(args, kMTiles * 8, shared);
  LaunchDependents();
  if (static_cast<int>(threadIdx.x) >= block.consumers) {
    Produce<kMTiles>(args, block);
    return;
  }
  Multiply<kMTiles>(args, block);
  DecodeEpilogue<kMTiles * 8, StoreResults>(
      args, block.work, block.smem, shared, {block.consumers, false}, {})
      .Run();
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_W4A8_GEMM_KERNEL_CUH_
