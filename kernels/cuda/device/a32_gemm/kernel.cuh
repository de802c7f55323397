// SPDX-License-Identifier: Apache-2.0
//
// C = A * W^T + bias in mode A32: weights whose codes are whole numbers, fp32
// activations (docs/formats.md#compute-modes) as three bf16 parts each, any
// number of rows of A.
//
// A block owns a row block of W, a part of K and up to 32 rows of A, as one of
// the decode kernel does of up to 64. Two warps bring stages of 128 columns
// through a ring in shared memory; the others multiply, a row tile of W each;
// warps of the same row tiles alternate along K, with 8 rows of A or more in
// groups of four warps that multiply together. A block of one row may split its
// part of it itself. Blocks of a cluster share K and send each other sums.
// Weights come before the kernel before this one is done.
//
// The order of arithmetic depends on the layer's tile config alone, so a row's
// bits depend neither on M nor on its neighbours.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_KERNEL_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_KERNEL_CUH_

#include <cstdint>
#include <type_traits>

#include "base/host_device.h"
#include "kernels/cuda/device/a32_gemm/mainloop.cuh"
#include "kernels/cuda/device/a32_gemm/split.cuh"
#include "kernels/cuda/device/a32_gemm/weights.cuh"
#include "kernels/cuda/device/a32_gemm/wide.cuh"
#include "kernels/cuda/device/decode_gemm/epilogue.cuh"
#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/pipeline.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/w4a8_gemm/producer.cuh"
#include "kernels/cuda/layout/a32_layout.h"
#include "kernels/cuda/layout/tile_config.h"
#include "kernels/cuda/layout/tile_layout.h"
#include "kernels/cuda/plan/a32_plan.h"

namespace qgemm::cuda {

// Warps that bring stages, one the weights, one the activations; beside groups
// of four warps two more, since a group changes its registers together.
QGEMM_HOST_DEVICE constexpr int A32ProducerWarps(bool wide) {
  return wide ? kGroupWarps : 2;
}
// Warps that multiply.
QGEMM_HOST_DEVICE int A32ConsumerWarps(const TileConfig& config, bool wide) {
  const int of_turn =
      wide ? NGroups(config.n_tiles) * kGroupWarps : config.n_tiles;
  return of_turn * config.k_warps;
}
static_assert(kMaxNTiles == kMaxGroups * kGroupWarps,
              "whole groups of warps are no more than row tiles");
// Threads of a block, at most.
QGEMM_HOST_DEVICE constexpr int A32MaxThreads(bool wide) {
  return (kMaxNTiles + A32ProducerWarps(wide)) * 32;
}

// The work of a block: of the decode kernel's, but for the rows of A.
__device__ __forceinline__ BlockWork A32WorkOf(const GemmArguments& args) {
  BlockWork work = WorkOf(args, blockIdx.x);
  work.first_m = blockIdx.y * kA32BlockM;
  work.rows = min(args.m - work.first_m, kA32BlockM);
  return work;
}

// The makeup of a block of threads, its work, and its shared memory.
template <int kTileM>
struct A32Block {
  // Warps multiply in groups (wide.cuh).
  static constexpr bool kWide = A32FormOf(kTileM) == A32Form::kPanels;
  static constexpr bool kSplits = kTileM == kA32OwnRow;
  static constexpr int kProducers = A32ProducerWarps(kWide) * 32;

  BlockWork work;
  DecodeSmemLayout smem;
  Ring ring;
  char* shared;
  int turn_warps;  // warps that take a stage
  int consumers;   // threads that multiply; those behind bring stages

  __device__ __forceinline__ A32Block(const GemmArguments& args, char* memory)
      : work(A32WorkOf(args)),
        smem(A32SmemLayoutOf({kTileM, args.stage_bytes,
                              (args.k_tiles + args.split_k - 1) / args.split_k,
                              args.n_tiles, args.split_k, args.k_warps},
                             args.slots)),
        ring{SharedAddress(memory) + smem.barriers, args.slots},
        shared(memory),
        turn_warps(A32ConsumerWarps({args.n_tiles, 1, 1, 1}, kWide)),
        consumers(turn_warps * args.k_warps * 32) {}

  __device__ __forceinline__ int threads() const {
    return consumers + kProducers;
  }
  __device__ __forceinline__ int stages() const {
    return work.end - work.begin;
  }
  // The barrier of the row that the block splits: warps arrive when they have
  // loaded it.
  __device__ __forceinline__ uint32_t RowBarrier() const {
    return ring.Empty(ring.slots);
  }
};

// Bytes of weights that a block of few rows brings before activations are there
// to be brought: more would stand in their way, and with few rows nothing else
// is waited for. On an H200 8192x28672 in ternary takes 25.8 us of 2 rows so
// and 27.8 with a full ring, of 8 rows 32.1 and 33.3; in Q4_0, of the row that
// blocks split, 38.4 and 40.2. From 16 rows on it is no gain.
inline constexpr int kBytesAhead = 32 << 10;
inline constexpr int kMaxPausingRows = 8;

// Called by all threads. A warp sets few barriers up: its lanes would do so one
// after another.
template <int kTileM>
__device__ __forceinline__ void SetUpA32Barriers(
    const GemmArguments& args, const A32Block<kTileM>& block) {
  constexpr int kOperands = A32Block<kTileM>::kSplits ? 1 : 2;
  const Ring& ring = block.ring;
  if (threadIdx.x % 32 == 0) {
    const int warps = block.threads() / 32;
    for (int slot = threadIdx.x / 32; slot < args.slots; slot += warps) {
      BarrierInit(ring.Full(slot), W4A8Arrivals(kOperands));
      BarrierInit(ring.Empty(slot), block.turn_warps * kReleasingLanes);
    }
    if (threadIdx.x == 0 && args.split_k > 1) {
      BarrierInit(ring.Received(), 1);
      BarrierArriveExpect(ring.Received(), ReceivedBytesOf(args, block.work));
    }
    if (threadIdx.x == 0 && A32Block<kTileM>::kSplits) {
      BarrierInit(block.RowBarrier(), block.consumers / 32);
    }
    BarrierInitFence();
  }
  NamedBarrier(kBlockBarrier, block.threads());
  if (args.split_k > 1) ClusterArrive();
}

// The part of the warps that bring stages.
template <int kTileM>
__device__ __forceinline__ void ProduceA32(const GemmArguments& args,
                                           const A32Block<kTileM>& block) {
  constexpr bool kSplits = A32Block<kTileM>::kSplits;
  constexpr int kActivationBytes = kSplits ? 0 : A32StageBytes(kTileM);
  const int warp = (threadIdx.x - block.consumers) / 32;
  const uint32_t shared = SharedAddress(block.shared);
  if (warp == 0) {
    const int64_t first = block.work.n_block * args.k_tiles + block.work.begin;
    const W4A8Source weights = {args.tiles + first * args.stage_bytes,
                                shared + block.smem.weights, args.stage_bytes};
    const int ahead = kTileM > kMaxPausingRows
                          ? block.stages()
                          : CeilDiv(kBytesAhead, args.stage_bytes);
    BringStages(weights, block.ring, block.stages(),
                args.stage_bytes + kActivationBytes, ahead, [&] {
                  if constexpr (kSplits) {
                    BarrierWait(block.RowBarrier(), 0);
                  } else {
                    GridDependencyWait();
                  }
                });
  } else if (!kSplits && warp == 1) {
    const int64_t first = int64_t{blockIdx.y} * args.k_tiles + block.work.begin;
    GridDependencyWait();
    BringStages({static_cast<const uint8_t*>(args.a) + first * kActivationBytes,
                 shared + block.smem.activations, kActivationBytes},
                block.ring, block.stages(), 0);
  }
}

// Splits the block's part of the row into shared memory; all loads of a thread
// come before its first store.
template <typename In, int kTileM>
__device__ __forceinline__ void SplitPart(const A32Arguments& args,
                                          const A32Block<kTileM>& block,
                                          A32Pairs pairs) {
  constexpr int kLanes = kA32Block / 8;  // of a block of columns
  const In* const row = static_cast<const In*>(args.gemm.a) +
                        int64_t{block.work.begin} * kTileColumns;
  const int octets = block.stages() * kA32TileBlocks * kLanes;
  A32Octet loaded[kMaxA32Octets] = {};
#pragma unroll
  for (int i = 0; i < kMaxA32Octets; ++i) {
    const int octet = static_cast<int>(threadIdx.x) + i * block.consumers;
    if (octet >= octets) continue;
    const In* const columns = row + octet / kLanes * kA32Block;
    loaded[i].Load(octet % kLanes, A32Form::kFew, pairs,
                   [&](int column) { return ToFloat(columns[column]); });
  }
#pragma unroll
  for (A32Octet& octet : loaded) PinRegisters(octet.columns);
  if (threadIdx.x % 32 == 0) BarrierArrive(block.RowBarrier());
  char* const activations = block.shared + block.smem.activations;
#pragma unroll
  for (int i = 0; i < kMaxA32Octets; ++i) {
    const int octet = static_cast<int>(threadIdx.x) + i * block.consumers;
    if (octet >= octets) continue;
    loaded[i].Split([&](int part, const uint4& words) {
      const A32Place place = {0, octet / kLanes, octet % kLanes, part};
      *reinterpret_cast<uint4*>(activations + A32Offset(place, kTileM)) = words;
    });
  }
}

// Called by the warps that multiply. Behind the row there are zeros, for
// columns of MMAs that have no part of it.
template <int kTileM>
__device__ __forceinline__ void SplitPart(const A32Arguments& args,
                                          const A32Block<kTileM>& block,
                                          A32Pairs pairs) {
  char* const zeros = block.shared + A32ZerosOffset(block.smem);
  for (int i = static_cast<int>(threadIdx.x) * 16; i < A32StageBytes(kTileM);
       i += block.consumers * 16) {
    *reinterpret_cast<uint4*>(zeros + i) = {};
  }
  GridDependencyWait();
  if (args.a_type == FloatType::kFloat16) {
    SplitPart<__half>(args, block, pairs);
  } else if (args.a_type == FloatType::kBFloat16) {
    SplitPart<__nv_bfloat16>(args, block, pairs);
  } else {
    SplitPart<float>(args, block, pairs);
  }
  NamedBarrier(kConsumersBarrier, block.consumers);
}

// The part of the warps that multiply, up to the epilogue.
template <int kCodes, ScaleKind kScale, int kTileM>
__device__ __forceinline__ void MultiplyA32(const A32Arguments& args,
                                            const A32Block<kTileM>& block) {
  using Consumer = std::conditional_t<A32Block<kTileM>::kWide,
                                      A32WideConsumer<kCodes, kScale, kTileM>,
                                      A32Consumer<kCodes, kScale, kTileM>>;
  const GemmArguments& gemm = args.gemm;
  if constexpr (A32Block<kTileM>::kSplits) {
    SplitPart(args, block, A32PairsOf(kCodes));
  }
  // Taken from one lane, so that the compiler knows it for all.
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  const int turn = warp / block.turn_warps;
  Consumer consumer(args, block.smem, block.shared, warp % block.turn_warps);
  consumer.Run(block.ring, {turn, gemm.k_warps, block.stages()});
  NamedBarrier(kConsumersBarrier, block.consumers);
  consumer.StoreSums(reinterpret_cast<float*>(block.shared) +
                     turn * kTileM * SumStride(gemm.n_tiles));
  NamedBarrier(kConsumersBarrier, block.consumers);
}

template <int kCodes, ScaleKind kScale, int kTileM>
__global__ void __launch_bounds__(A32MaxThreads(A32Block<kTileM>::kWide), 1)
    A32Gemm(const __grid_constant__ A32Arguments args) {
  extern __shared__ __align__(1024) char shared[];
  constexpr bool kWide = A32Block<kTileM>::kWide;
  const GemmArguments& gemm = args.gemm;
  const A32Block<kTileM> block(gemm, shared);
  LaunchDependents();
  SetUpA32Barriers(gemm, block);
  if (static_cast<int>(threadIdx.x) >= block.consumers) {
    if constexpr (kWide) ShrinkRegisters<24>();
    ProduceA32(gemm, block);
  } else {
    if constexpr (kWide) GrowRegisters<112>();
    MultiplyA32<kCodes, kScale>(args, block);
    DecodeEpilogue<kTileM, StoreResults>(gemm, gemm, block.work, block.smem,
                                         shared, block.ring.Received(),
                                         {block.consumers, false}, {})
        .Run();
  }
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_KERNEL_CUH_
