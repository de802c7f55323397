// SPDX-License-Identifier: Apache-2.0
//
// C = A * W^T + bias for M <= 64, weights of 2 to 5 bits, 16-bit activations.
//
// A block owns a row block and a part of K. One warp of it, the producer,
// brings stages (codes, scales and the activations of 128 columns) through a
// ring in shared memory; the others multiply: a pair of row tiles a warp,
// column_warps warps taking turns at the stages. Weights are the A operand of
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
#include "kernels/cuda/tuning/shared_plan.h"

namespace qgemm::cuda {

inline constexpr int kTilesPerWarp = 2;
// With the producers, sixteen warps: 128 registers a thread.
inline constexpr int kMaxConsumerWarps = 14;
// One warp brings the weights, one the activations.
inline constexpr int kProducerWarps = 2;
inline constexpr int kMaxThreads = (kMaxConsumerWarps + kProducerWarps) * 32;

// How the kernel reads scales: E4M4 a block of 32, or any other kind.
enum class ScaleReader { kE4m4, kGeneral };
enum class GeneralScale : int { kFloat16, kBFloat16, kFloat32, kRow };
enum class ResultType : int { kFloat16, kBFloat16, kFloat32 };

struct GemmArguments {
  const uint8_t* tiles;
  const float* row_scales;  // [padded n], or null
  const float* bias;        // [n], or null
  const float* codebook;    // [2^bits]
  float table_scale;        // of codebook values in the table
  float factor;             // of every sum
  const void* a;            // [m, lda]
  void* c;                  // [m, n]
  int64_t lda;
  int64_t n;
  int64_t k;
  int m;
  int row_tiles;
  int column_tiles;
  int splits;
  int column_warps;
  int slots;  // of the ring
  int tile_code_bytes;
  int tile_scale_bytes;
  int stage_bytes;
  int groups;  // of scales in 128 columns
  GeneralScale scale;
  ResultType result;
};

// Floats between two tokens' rows of partial sums: lanes then write to
// different banks.
__host__ __device__ inline int PartialStride(int row_tiles) {
  return row_tiles * 16 + 4;
}

struct BlockWork {
  int64_t row_block;
  int rank;   // in the cluster
  int begin;  // column tiles
  int end;
};

__device__ __forceinline__ BlockWork WorkOf(const GemmArguments& args) {
  BlockWork work;
  work.row_block = blockIdx.x / args.splits;
  work.rank = blockIdx.x % args.splits;
  work.begin = work.rank * args.column_tiles / args.splits;
  work.end = (work.rank + 1) * args.column_tiles / args.splits;
  return work;
}

// Arrivals at a full barrier: of the lane that asked for the weights, and of
// all lanes that bring activations.
#if __CUDA_ARCH__ >= 900
inline constexpr int kProducerArrivals = 1 + 32;
#else
inline constexpr int kProducerArrivals = 32 + 32;
#endif

// What a stage's slot is and when it may be written again.
struct Ring {
  uint32_t barriers;  // full and empty of slot 0
  int slots;

  __device__ __forceinline__ uint32_t Full(int slot) const {
    return barriers + slot * kBarrierBytes;
  }
  __device__ __forceinline__ uint32_t Empty(int slot) const {
    return Full(slot) + 8;
  }
  // Calls load(stage, slot) for every stage, once its slot is free.
  template <typename Load>
  __device__ __forceinline__ void Produce(int stages, const Load& load) const {
    int slot = 0;
    uint32_t parity = 1;  // a fresh barrier's former phase counts as done
    for (int stage = 0; stage < stages; ++stage) {
      BarrierWait(Empty(slot), parity);
      load(stage, slot);
      if (++slot == slots) {
        slot = 0;
        parity ^= 1;
      }
    }
  }
};

__device__ __forceinline__ void ProduceWeights(const GemmArguments& args,
                                               const BlockWork& work,
                                               const Ring& ring,
                                               uint32_t weights, int lane) {
  const uint8_t* from =
      args.tiles +
      (work.row_block * args.column_tiles + work.begin) * args.stage_bytes;
  ring.Produce(work.end - work.begin, [&](int stage, int slot) {
    const uint32_t to = weights + slot * args.stage_bytes;
    const uint8_t* stage_from = from + int64_t{stage} * args.stage_bytes;
#if __CUDA_ARCH__ >= 900
    if (lane == 0) {
      BarrierArriveExpect(ring.Full(slot), args.stage_bytes);
      CopyBulk(to, stage_from, args.stage_bytes, ring.Full(slot));
    }
#else
    for (int i = lane * 16; i < args.stage_bytes; i += 512) {
      CopyAsync16(to + i, stage_from + i, 16);
    }
    CopyAsyncArrive(ring.Full(slot));
#endif
  });
}

// Columns beyond k become zeros. A lane copies the same 16 bytes of every
// second token.
template <int kTokenTiles>
__device__ __forceinline__ void ProduceActivations(const GemmArguments& args,
                                                   const BlockWork& work,
                                                   const Ring& ring,
                                                   uint32_t activations,
                                                   int lane) {
  constexpr int kTokens = kTokenTiles * 8;
  const int64_t first = work.begin * 128LL + (lane & 15) * 8;
  const int first_token = lane >> 4;
  const char* from =
      static_cast<const char*>(args.a) + (first_token * args.lda + first) * 2;
  const int64_t two_tokens = args.lda * 4;
  const uint32_t to =
      activations + first_token * kTokenBytes + (lane & 15) * 16;
  WaitForPreviousKernel();
  ring.Produce(work.end - work.begin, [&](int stage, int slot) {
    const int64_t left = (args.k - first - stage * 128LL) * 2;
    const uint32_t valid = left <= 0 ? 0 : left < 16 ? left : 16;
    const char* token_from =
        left <= 0 ? static_cast<const char*>(args.a) : from + stage * 256LL;
    const uint32_t token_to = to + slot * kTokens * kTokenBytes;
#pragma unroll
    for (int i = 0; i < kTokens / 2; ++i) {
      if (first_token + 2 * i >= args.m) break;
      CopyAsync16(token_to + 2 * i * kTokenBytes, token_from, valid);
      token_from += left <= 0 ? 0 : two_tokens;
    }
    CopyAsyncArrive(ring.Full(slot));
  });
}

// Tokens of the ring that no copy writes become zeros; all `threads` take
// part.
template <int kTokenTiles>
__device__ __forceinline__ void ClearIdleTokens(const GemmArguments& args,
                                                uint32_t activations,
                                                int thread, int threads) {
  constexpr int kTokens = kTokenTiles * 8;
  const int idle = (kTokens - args.m) * 16;
  for (int i = thread; i < idle * args.slots; i += threads) {
    const int slot = i / idle;
    const int token = args.m + i % idle / 16;
    StoreSharedZeros(activations + (slot * kTokens + token) * kTokenBytes +
                     i % 16 * 16);
  }
}

// Scales of a tile's rows g and g + 8 in the four blocks of a stage.
template <ScaleReader kReader>
struct TileScales {
  uint2 e4m4;
  const char* general;

  __device__ __forceinline__ void Load(const GemmArguments& args,
                                       const char* tile_scales, int g) {
    if constexpr (kReader == ScaleReader::kE4m4) {
      e4m4 = *reinterpret_cast<const uint2*>(tile_scales + g * 8);
    } else {
      const int pair_bytes = args.scale == GeneralScale::kFloat32 ? 8 : 4;
      general = tile_scales + g * args.groups * pair_bytes;
    }
  }

  __device__ __forceinline__ float2 OfBlock(const GemmArguments& args,
                                            int block) const {
    if constexpr (kReader == ScaleReader::kE4m4) {
      // half(code << 6) is a sixteenth of the scale; factor makes it good.
      const uint32_t word = block < 2 ? e4m4.x : e4m4.y;
      const uint32_t pair =
          __byte_perm(word, 0, block % 2 == 0 ? 0x1404 : 0x3424) >> 2;
      return __half22float2(reinterpret_cast<const __half2&>(pair));
    } else {
      if (args.scale == GeneralScale::kRow) return make_float2(1, 1);
      const int j = block * args.groups >> 2;
      if (args.scale == GeneralScale::kFloat32) {
        return *reinterpret_cast<const float2*>(general + j * 8);
      }
      const uint32_t pair = *reinterpret_cast<const uint32_t*>(general + j * 4);
      if (args.scale == GeneralScale::kFloat16) {
        return __half22float2(reinterpret_cast<const __half2&>(pair));
      }
      return make_float2(__uint_as_float(pair << 16),
                         __uint_as_float(pair & 0xffff0000u));
    }
  }
};

template <typename T>
__device__ __forceinline__ uint32_t SubtractPair(uint32_t a, uint32_t b);
template <>
__device__ __forceinline__ uint32_t SubtractPair<__half>(uint32_t a,
                                                         uint32_t b) {
  const __half2 d = __hsub2(reinterpret_cast<const __half2&>(a),
                            reinterpret_cast<const __half2&>(b));
  return reinterpret_cast<const uint32_t&>(d);
}
template <>
__device__ __forceinline__ uint32_t SubtractPair<__nv_bfloat16>(uint32_t a,
                                                                uint32_t b) {
  const __nv_bfloat162 d = __hsub2(reinterpret_cast<const __nv_bfloat162&>(a),
                                   reinterpret_cast<const __nv_bfloat162&>(b));
  return reinterpret_cast<const uint32_t&>(d);
}

// One warp that multiplies: tiles kTilesPerWarp * row_warp and on.
template <int kBits, ScaleReader kReader, bool kZeros, typename T,
          int kTokenTiles>
struct Consumer {
  const GemmArguments& args;
  const SharedPlan& plan;
  const char* shared;
  int lane;
  int first_tile;
  float sums[kTilesPerWarp][kTokenTiles][4];

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int r = 0; r < kTilesPerWarp; ++r) {
#pragma unroll
      for (int token = 0; token < kTokenTiles; ++token) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[r][token][i] = 0;
      }
    }
  }

  // A tile of the warp that does not exist is computed as the last one.
  __device__ __forceinline__ int Tile(int r) const {
    const int tile = first_tile + r;
    return tile < args.row_tiles ? tile : args.row_tiles - 1;
  }

  // Decodes one tile's block of 32 columns into two A operands.
  __device__ __forceinline__ void Decode(const HalfTile<kBits>& half, int b,
                                         const char* zeros, int block,
                                         uint32_t (&a)[2][4]) const {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      DecodeStep<kBits>(half, b, s, shared, lane, a[s]);
    }
    if constexpr (kZeros) {
      const int j = block * args.groups >> 2;
      const uint32_t pair = *reinterpret_cast<const uint16_t*>(
          zeros + 2 * ((lane >> 2) * args.groups + j));
      const uint32_t zero[2] = {
          IntegerBase<T>::kPair | __byte_perm(pair, 0, 0x4040),
          IntegerBase<T>::kPair | __byte_perm(pair, 0, 0x4141)};
#pragma unroll
      for (int s = 0; s < 2; ++s) {
#pragma unroll
        for (int j4 = 0; j4 < 4; ++j4) {
          a[s][j4] = SubtractPair<T>(a[s][j4], zero[j4 & 1]);
        }
      }
    }
  }

  __device__ __forceinline__ void MultiplyBlock(
      const uint32_t (&a)[kTilesPerWarp][2][4],
      const float2 (&scales)[kTilesPerWarp], const char* activations) {
#pragma unroll
    for (int token = 0; token < kTokenTiles; ++token) {
      const uint4 b = *reinterpret_cast<const uint4*>(activations +
                                                      token * 8 * kTokenBytes);
#pragma unroll
      for (int r = 0; r < kTilesPerWarp; ++r) {
        float d[4] = {0, 0, 0, 0};
        Mma16816<T>(d, a[r][0], b.x, b.y);
        Mma16816<T>(d, a[r][1], b.z, b.w);
        float(&sum)[4] = sums[r][token];
        sum[0] = fmaf(d[0], scales[r].x, sum[0]);
        sum[1] = fmaf(d[1], scales[r].x, sum[1]);
        sum[2] = fmaf(d[2], scales[r].y, sum[2]);
        sum[3] = fmaf(d[3], scales[r].y, sum[3]);
      }
    }
  }

  __device__ __forceinline__ void MultiplyStage(int slot) {
    const char* stage = shared + plan.weights + slot * args.stage_bytes;
    const char* scales_at = stage + args.row_tiles * args.tile_code_bytes;
    const char* zeros_at = scales_at + args.row_tiles * args.tile_scale_bytes;
    const char* activations = shared + plan.activations +
                              slot * kTokenTiles * 8 * kTokenBytes +
                              (lane >> 2) * kTokenBytes + (lane & 3) * 16;
    const int g = lane >> 2;
    TileScales<kReader> tile_scales[kTilesPerWarp];
#pragma unroll
    for (int r = 0; r < kTilesPerWarp; ++r) {
      tile_scales[r].Load(args, scales_at + Tile(r) * args.tile_scale_bytes, g);
    }
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      HalfTile<kBits> half[kTilesPerWarp];
#pragma unroll
      for (int r = 0; r < kTilesPerWarp; ++r) {
        half[r] = LoadHalfTile<kBits>(stage + Tile(r) * args.tile_code_bytes, q,
                                      lane);
      }
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        const int block = 2 * q + b;
        uint32_t a[kTilesPerWarp][2][4];
        float2 scales[kTilesPerWarp];
#pragma unroll
        for (int r = 0; r < kTilesPerWarp; ++r) {
          Decode(half[r], b, zeros_at + Tile(r) * 16 * args.groups, block,
                 a[r]);
          scales[r] = tile_scales[r].OfBlock(args, block);
        }
        MultiplyBlock(a, scales, activations + block * 64);
      }
    }
  }

  // Writes the sums to [token][row of the row block].
  __device__ __forceinline__ void StorePartials(float* partials) const {
    const int stride = PartialStride(args.row_tiles);
#pragma unroll
    for (int r = 0; r < kTilesPerWarp; ++r) {
      if (first_tile + r >= args.row_tiles) break;
#pragma unroll
      for (int token = 0; token < kTokenTiles; ++token) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int m = token * 8 + (lane & 3) * 2 + (i & 1);
          const int row = (first_tile + r) * 16 + (lane >> 2) + (i >> 1) * 8;
          partials[m * stride + row] = sums[r][token][i];
        }
      }
    }
  }
};

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
