// SPDX-License-Identifier: Apache-2.0
//
// C = A * W^T + bias for M <= 64, weights of 2 to 5 bits, 16-bit activations.
//
// A block owns a row block and a part of K. Two of its warps bring stages
// (codes, scales and zeros; the activations of 128 columns) through a ring in
// shared memory; the others multiply: a pair of row tiles a warp, column_warps
// warps taking turns at the stages. Weights are the A operand of
// the MMA, tokens its eight columns. A block of 32 columns is summed by the
// tensor core, then scaled and added in fp32. Blocks of a cluster share K;
// their sums meet through distributed shared memory, always in one order.
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
#include "kernels/cuda/device/wqa16_ring.cuh"

namespace qgemm::cuda {

__device__ __forceinline__ void StoreResult(const GemmArguments& args,
                                            int64_t index, float value) {
  if (args.result == ResultType::kFloat16) {
    static_cast<__half*>(args.c)[index] = __float2half_rn(value);
  } else if (args.result == ResultType::kBFloat16) {
    static_cast<__nv_bfloat16*>(args.c)[index] = __float2bfloat16_rn(value);
  } else {
    static_cast<float*>(args.c)[index] = value;
  }
}

// Adds the partial sums of all warps and blocks that share K, for the rows
// that fall to this block of the cluster, and stores C.
template <int kTokenTiles>
__device__ __forceinline__ void ReduceAndStore(const GemmArguments& args,
                                               const BlockWork& work,
                                               const char* shared) {
  const int stride = PartialStride(args.row_tiles);
  const int rows = args.row_tiles * 16 / args.splits;
  const int partial = kTokenTiles * 8 * stride;
  for (int i = threadIdx.x; i < args.m * rows; i += blockDim.x) {
    const int m = i / rows;
    const int row = work.rank * rows + i % rows;
    float sum = 0;
    for (int s = 0; s < args.splits; ++s) {
      for (int w = 0; w < args.column_warps; ++w) {
        const int place = w * partial + m * stride + row;
        sum += args.splits == 1
                   ? reinterpret_cast<const float*>(shared)[place]
                   : LoadClusterFloat(SharedAddress(shared) + place * 4, s);
      }
    }
    const int64_t n = work.row_block * args.row_tiles * 16 + row;
    if (n >= args.n) continue;
    sum *= args.factor;
    if (args.row_scales != nullptr) sum *= args.row_scales[n];
    if (args.bias != nullptr) sum += args.bias[n];
    StoreResult(args, m * args.n + n, sum);
  }
}

template <int kBits, ScaleReader kReader, bool kZeros, typename T,
          int kTokenTiles>
__global__ void __launch_bounds__(kMaxThreads, 1)
    Wqa16Gemm(const __grid_constant__ GemmArguments args) {
  extern __shared__ __align__(1024) char shared[];
  const SharedPlan plan =
      PlanShared(kBits, kTokenTiles * 8, args.slots, args.stage_bytes);
  const BlockWork work = WorkOf(args);
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int row_warps = (args.row_tiles + kTilesPerWarp - 1) / kTilesPerWarp;
  const int consumers = row_warps * args.column_warps;
  const uint32_t base = SharedAddress(shared);
  const Ring ring{base + plan.barriers, args.slots};
  if (threadIdx.x < args.slots) {
    BarrierInit(ring.Full(threadIdx.x), kProducerArrivals);
    BarrierInit(ring.Empty(threadIdx.x), row_warps);
    BarrierInitFence();
  }
  __syncthreads();
  AllowNextKernel();
  Consumer<kBits, kReader, kZeros, T, kTokenTiles> consumer{
      args, plan, shared, lane, warp % row_warps * kTilesPerWarp, {}};
  if (warp == consumers) {
    ProduceWeights(args, work, ring, base + plan.weights, lane);
  } else if (warp > consumers) {
    ProduceActivations<kTokenTiles>(args, work, ring, base + plan.activations,
                                    lane);
  } else {
    FillTable<kBits, T>(args.codebook, args.table_scale,
                        kZeros ? IntegerBase<T>::kValue : 0.0f, threadIdx.x,
                        consumers * 32, shared);
    ClearIdleTokens<kTokenTiles>(args, base + plan.activations, threadIdx.x,
                                 consumers * 32);
    asm volatile("bar.sync 1, %0;" ::"r"(consumers * 32) : "memory");
    consumer.Clear();
    const int stages = work.end - work.begin;
    for (int i = warp / row_warps; i < stages; i += args.column_warps) {
      const int slot = i % args.slots;
      BarrierWait(ring.Full(slot), i / args.slots & 1);
      consumer.MultiplyStage(slot);
      __syncwarp();
      if (lane == 0) BarrierArrive(ring.Empty(slot));
    }
  }
  __syncthreads();
  if (warp < consumers) {
    consumer.StorePartials(reinterpret_cast<float*>(shared) +
                           warp / row_warps * kTokenTiles * 8 *
                               PartialStride(args.row_tiles));
  }
  __syncthreads();
  if (args.splits > 1) ClusterSync();
  ReduceAndStore<kTokenTiles>(args, work, shared);
  // No block leaves while another reads its sums.
  if (args.splits > 1) ClusterSync();
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WQA16_GEMM_CUH_
