// SPDX-License-Identifier: Apache-2.0
//
// C = A * W^T + bias in mode A8: weights of 4 bits, activations of 8
// (docs/formats.md#compute-modes), any number of rows of A.
//
// A block owns a row block of W, a part of K and up to 64 rows of A, as one of
// the decode kernel does. Two warps bring stages of 128 columns through a ring
// in shared memory; the others multiply, one or two row tiles of W each; warps
// of the same row tiles alternate along K. Of one row a block may quantize
// its part itself, while its first weights come. Blocks of a cluster share K
// and send each other sums. Weights come before the kernel before this one is
// done.
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
#include "kernels/cuda/device/w4a8_gemm/quantize.cuh"
#include "kernels/cuda/layout/q8_layout.h"
#include "kernels/cuda/plan/w4a8_plan.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {

// Warps that multiply, at most, and those that bring stages.
constexpr int W4A8MaxThreads(int row_tiles) {
  return (kMaxNTiles / row_tiles + kW4A8ProducerWarps) * 32;
}

// Kernel parameters.
struct W4A8Arguments {
  GemmArguments gemm;  // a is quantized (q8_layout.h), or as it comes
  FloatType a_type;    // of a that comes as it is
};

// The makeup of a block of threads, its work, and its shared memory.
struct W4A8Block {
  BlockWork work;
  DecodeSmemLayout smem;
  Ring ring;
  char* shared;
  int n_warps;    // that share a stage
  int consumers;  // threads that multiply; the warps behind bring stages

  // Warps have `row_tiles` row tiles each.
  __device__ __forceinline__ W4A8Block(const GemmArguments& args,
                                       const W4A8SmemShape& shape,
                                       int row_tiles, char* memory)
      : work(WorkOf(args, blockIdx.x)),
        smem(W4A8SmemLayoutOf(shape, args.slots)),
        ring{SharedAddress(memory) + smem.barriers, args.slots},
        shared(memory),
        n_warps(args.n_tiles / row_tiles),
        consumers(n_warps * args.k_warps * 32) {}

  __device__ __forceinline__ int threads() const {
    return consumers + kW4A8ProducerWarps * 32;
  }
  __device__ __forceinline__ int stages() const {
    return work.end - work.begin;
  }
};

__device__ __forceinline__ W4A8SmemShape W4A8ShapeOf(const GemmArguments& args,
                                                     int tile_m,
                                                     bool quantizes) {
  return {tile_m,       args.stage_bytes, CeilDiv(args.k_tiles, args.split_k),
          args.n_tiles, args.split_k,     args.k_warps,
          quantizes};
}

// Called by the first warp that brings stages.
template <bool kQuantizes>
__device__ __forceinline__ void SetUpBarriers(const GemmArguments& args,
                                              const W4A8Block& block) {
  const int lane = threadIdx.x % 32;
  const Ring& ring = block.ring;
  for (int slot = lane; slot < args.slots; slot += 32) {
    BarrierInit(ring.Full(slot), W4A8Arrivals(kQuantizes ? 1 : 2));
    BarrierInit(ring.Empty(slot), block.n_warps * kReleasingLanes);
  }
  if (lane == 0 && args.split_k > 1) {
    BarrierInit(ring.Received(), 1);
    BarrierArriveExpect(ring.Received(), ReceivedBytesOf(args, block.work));
  }
  BarrierInitFence();
  __syncwarp();
}

// The part of the warps that bring stages.
template <int kMTiles, bool kQuantizes>
__device__ __forceinline__ void Produce(const GemmArguments& args,
                                        const W4A8Block& block) {
  const int warp = (threadIdx.x - block.consumers) / 32;
  if (warp == 0) SetUpBarriers<kQuantizes>(args, block);
  NamedBarrierArrive(kBlockBarrier, block.threads());
  NamedBarrier(kProducersBarrier, kW4A8ProducerWarps * 32);
  if (args.split_k > 1) ClusterArrive();
  constexpr int kActivationBytes = kQuantizes ? 0 : kMTiles * kQ8TileBytes;
  const uint32_t shared = SharedAddress(block.shared);
  if (warp == 0) {
    const int64_t first = block.work.n_block * args.k_tiles + block.work.begin;
    BringStages({args.tiles + first * args.stage_bytes,
                 shared + block.smem.weights, args.stage_bytes},
                block.ring, block.stages(),
                args.stage_bytes + kActivationBytes);
  } else if (!kQuantizes) {
    const int64_t first = int64_t{blockIdx.y} * args.k_tiles + block.work.begin;
    GridDependencyWait();
    BringStages({static_cast<const uint8_t*>(args.a) + first * kActivationBytes,
                 shared + block.smem.activations, kActivationBytes},
                block.ring, block.stages(), 0);
  }
}

// Quantizes the block's part of the row into shared memory.
template <typename In>
__device__ __forceinline__ void QuantizePart(const GemmArguments& args,
                                             const W4A8Block& block) {
  const int items = block.stages() * kQ8TileBlocks * kQ8Lanes;
  for (int i = threadIdx.x; i < items; i += block.consumers) {
    const int t = i % kQ8Lanes;
    const int q8_block = i / kQ8Lanes;  // of the part
    const int64_t column =
        int64_t{block.work.begin} * kTileColumns + q8_block * kQ8Block;
    Q8Columns columns;
    if (column < args.k) {
      columns.Load(static_cast<const In*>(args.a) + column, t);
    }
    const Q8Part part = Quantize(columns);
    char* const tile = block.shared + block.smem.activations +
                       q8_block / kQ8TileBlocks * Q8TileBytes(1);
    const int in_tile = q8_block % kQ8TileBlocks;
    *reinterpret_cast<uint2*>(
        tile + Q8CodeOffset(0, in_tile * kQ8Block + 2 * t, 1)) = part.words;
    if (t == 0) {
      *reinterpret_cast<float*>(tile + Q8ScaleOffset(0, in_tile, 1)) = part.d8;
    }
  }
}

// Called by the warps that multiply.
__device__ __forceinline__ void QuantizePart(const W4A8Arguments& args,
                                             const W4A8Block& block) {
  GridDependencyWait();
  if (args.a_type == FloatType::kFloat16) {
    QuantizePart<__half>(args.gemm, block);
  } else if (args.a_type == FloatType::kBFloat16) {
    QuantizePart<__nv_bfloat16>(args.gemm, block);
  } else {
    QuantizePart<float>(args.gemm, block);
  }
  NamedBarrier(kConsumersBarrier, block.consumers);
}

// The part of the warps that multiply, up to the epilogue.
template <int kMTiles, int kRowTiles, bool kQuantizes>
__device__ __forceinline__ void Multiply(const W4A8Arguments& args,
                                         const W4A8Block& block) {
  const GemmArguments& gemm = args.gemm;
  if (gemm.split_k > 1) ClusterArrive();
  if constexpr (kQuantizes) QuantizePart(args, block);
  NamedBarrier(kBlockBarrier, block.threads());
  // Taken from one lane, so that the compiler knows it for all.
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  const int turn = warp / block.n_warps;
  float* const sums = reinterpret_cast<float*>(block.shared) +
                      turn * kMTiles * 8 * SumStride(gemm.n_tiles);
  W4A8Consumer<kMTiles, kRowTiles, kQuantizes> consumer(
      gemm, block.smem, block.shared, warp % block.n_warps * kRowTiles);
  const KSlice slice = {turn, gemm.k_warps, block.stages()};
  consumer.Run(block.ring, slice, sums);
  NamedBarrier(kConsumersBarrier, block.consumers);
  consumer.StoreSums(slice, sums);
  NamedBarrier(kConsumersBarrier, block.consumers);
}

// A warp multiplies kRowTiles row tiles, of which n_tiles is a multiple.
// kQuantizes: A comes as it is, one row.
template <int kMTiles, int kRowTiles, bool kQuantizes>
__global__ void __launch_bounds__(W4A8MaxThreads(kRowTiles), 1)
    W4A8Gemm(const __grid_constant__ W4A8Arguments args) {
  extern __shared__ __align__(128) char shared[];
  const GemmArguments& gemm = args.gemm;
  const W4A8Block block(gemm, W4A8ShapeOf(gemm, kMTiles * 8, kQuantizes),
                        kRowTiles, shared);
  LaunchDependents();
  if (static_cast<int>(threadIdx.x) >= block.consumers) {
    Produce<kMTiles, kQuantizes>(gemm, block);
    return;
  }
  Multiply<kMTiles, kRowTiles, kQuantizes>(args, block);
  DecodeEpilogue<kMTiles * 8, StoreResults>(gemm, gemm, block.work, block.smem,
                                            shared, block.ring.Received(),
                                            {block.consumers, false}, {})
      .Run();
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_W4A8_GEMM_KERNEL_CUH_
