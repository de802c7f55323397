// SPDX-License-Identifier: Apache-2.0
//
// A group of decode GEMMs of few rows whose blocks multiply several parts one
// after the other, through one ring: the parts of K that else the blocks of a
// cluster share, or the same rows of two GEMMs, whose results then meet in
// registers. The order of arithmetic is that of DecodeGemm.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_PARTS_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_PARTS_CUH_

#include <cstdint>

#include "kernels/cuda/device/decode_gemm/group.cuh"

namespace qgemm::cuda {

// The stages of a block's rows of a GEMM and of the one that is paired with it.
class PairSource {
 public:
  // `pair` may be null.
  __device__ __forceinline__ PairSource(const GroupedGemm& own,
                                        const GroupedGemm* pair,
                                        int64_t n_block)
      : tiles_(own.gemm.tiles +
               n_block * own.gemm.k_tiles * own.gemm.stage_bytes),
        second_offset_(pair == nullptr ? 0 : pair->gemm.tiles - own.gemm.tiles),
        stages_(own.gemm.k_tiles),
        total_(pair == nullptr ? stages_ : 2 * stages_) {}

  __device__ __forceinline__ int stages() const { return total_; }
  __device__ __forceinline__ const uint8_t* Weights(int stage,
                                                    int stage_bytes) const {
    const int64_t offset = stage < stages_ ? 0 : second_offset_;
    return tiles_ + offset + int64_t{KTile(stage)} * stage_bytes;
  }
  __device__ __forceinline__ int KTile(int stage) const {
    return stage < stages_ ? stage : stage - stages_;
  }

 private:
  const uint8_t* const tiles_;
  const int64_t second_offset_;
  const int stages_;  // of one GEMM
  const int total_;
};

// A warp that multiplies a row tile of each part.
template <int kCodes, ScaleKind kScale, typename T, int kMTiles>
class PartsConsumer {
 public:
  __device__ __forceinline__ PartsConsumer(const GemmArguments& args,
                                           const DecodeSmemLayout& smem,
                                           const char* shared, int tile)
      : exists_(tile < args.n_tiles),
        tile_(exists_ ? tile : args.n_tiles - 1),
        tiles_(args, smem, shared, tile_) {}

  __device__ __forceinline__ void Run(const Ring& ring, const KSlice& of_part,
                                      int parts) {
    float sums[Tiles::kSums];
    Clear(sums);
    ScaledMainloop<Tiles>(tiles_, sums)
        .RunParts(ring, of_part, kChainStages, parts, [&](int part) {
    // Registers have no index that is known late.
#pragma unroll
          for (int p = 0; p < kMaxParts; ++p) {
#pragma unroll
            for (int i = 0; i < Tiles::kSums; ++i) {
              sums_[p][i] = p == part ? sums[i] : sums_[p][i];
            }
          }
          Clear(sums);
        });
  }

  // Writes the sums of a part after the other, `stride` floats apart.
  __device__ __forceinline__ void StoreSums(float* all, int stride,
                                            int parts) const {
    if (!exists_) return;
#pragma unroll
    for (int p = 0; p < kMaxParts; ++p) {
      if (p < parts) StoreTileSums(tiles_, tile_, sums_[p], all + p * stride);
    }
  }

 private:
  using Tiles = TileMultiplier<kCodes, kScale, false, T, kMTiles>;

  static __device__ __forceinline__ void Clear(float (&sums)[Tiles::kSums]) {
#pragma unroll
    for (float& sum : sums) sum = 0;
  }

  const bool exists_;
  const int tile_;
  const Tiles tiles_;
  float sums_[kMaxParts][Tiles::kSums] = {};
};

// Called by all threads that multiplied, together. sums_ has [part][warp that
// alternates along K][row of A][stride].
template <int kTileM>
class PartsEpilogue {
 public:
  __device__ __forceinline__ PartsEpilogue(const GroupedGemm& own,
                                           const GroupedGemm* pair,
                                           const BlockWork& work,
                                           const float* sums, int threads)
      : own_(own), pair_(pair), work_(work), sums_(sums), threads_(threads) {}

  __device__ __forceinline__ void Run() const {
    const unsigned fours = own_.gemm.n_tiles * 4;
    for (unsigned i = threadIdx.x; i < work_.rows * fours; i += threads_) {
      Finish(static_cast<int>(i / fours), static_cast<int>(i % fours) * 4);
    }
  }

 private:
  __device__ __forceinline__ float4 SumOfPart(int part, int m, int row) const {
    const int stride = SumStride(own_.gemm.n_tiles);
    const int k_warps = own_.gemm.k_warps;
    return SumOfWarps(
        sums_ + part * k_warps * kTileM * stride + m * stride + row, k_warps,
        kTileM * stride);
  }

  // As the blocks of a cluster do it.
  __device__ __forceinline__ float4 SumOfParts(int m, int row) const {
    if (own_.parts == 1) return SumOfPart(0, m, row);
    float4 sum = {0, 0, 0, 0};
    for (int part = 0; part < own_.parts; ++part) {
      sum = sum + SumOfPart(part, m, row);
    }
    return sum;
  }

  // Puts sums of a GEMM through its epilogue.
  static __device__ __forceinline__ void End(const GroupedGemm& gemm, int m,
                                             int64_t n, float4 sum,
                                             const float (&pair)[4],
                                             float (&x)[4]) {
    ScaleSums(gemm.gemm, n, sum);
    x[0] = sum.x;
    x[1] = sum.y;
    x[2] = sum.z;
    x[3] = sum.w;
    StoreThroughOps{gemm}.Apply(gemm.gemm, m, n, pair, x);
  }

  __device__ __forceinline__ void Finish(int m, int row) const {
    const int64_t n = work_.n_block * own_.gemm.n_tiles * 16 + row;
    if (n >= own_.gemm.n) return;
    const float nothing[4] = {};
    float x[4];
    if (pair_ == nullptr) {
      End(own_, m, n, SumOfParts(m, row), nothing, x);
      return;
    }
    float second[4];
    End(own_, m, n, SumOfPart(0, m, row), nothing, x);
    End(*pair_, m, n, SumOfPart(1, m, row), x, second);
  }

  const GroupedGemm& own_;
  const GroupedGemm* const pair_;
  const BlockWork& work_;
  const float* const sums_;
  const unsigned threads_;
};

// Shared memory of a block, whose sums are those of all parts.
__device__ __forceinline__ DecodeSmemLayout
PartsSmemLayoutOf(const GemmArguments& args, int codes, int tile_m, int parts) {
  const DecodeSmemShape shape = {codes,        tile_m, args.stage_bytes,
                                 args.n_tiles, 1,      args.k_warps * parts};
  return DecodeSmemLayoutOf(shape, args.slots);
}

// Fewer rows than a block of DecodeGemm may have: sums of all parts are in
// registers.
template <int kCodes, ScaleKind kScale, typename T, int kMTiles>
__global__ void __launch_bounds__(kMaxThreads, 1)
    DecodeParts(const __grid_constant__ GroupArguments group) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(1024) char shared[];
  constexpr int kTileM = kMTiles * 8;
  const int place = PlaceOf(group);
  const GroupedGemm& own = group.gemms[place];
  const GroupedGemm* const pair =
      own.pair < 0 ? nullptr : &group.gemms[own.pair];
  const GemmArguments& args = own.gemm;
  const BlockWork work = WorkOf(args, blockIdx.x - own.first_block);
  const int parts = pair == nullptr ? own.parts : 2;
  const DecodeSmemLayout smem = PartsSmemLayoutOf(args, kCodes, kTileM, parts);
  const Ring ring{SharedAddress(shared) + smem.barriers, args.slots};
  const BlockShape block(args);
  const int thread = static_cast<int>(threadIdx.x);
  LaunchDependents();
  if (thread >= block.consumers + kGroupWarps * 32) return;
  const PairSource source(own, pair, work.n_block);
  if (thread >= block.consumers) {
    Produce<kMTiles>(args, smem, work, ring, shared, WaitFor(group.norm),
                     source);
    return;
  }
  PrefetchKernelParams(args);
  if (pair != nullptr) PrefetchEpilogue(*pair);
  SetUpTable<kCodes, false, T>(args, block, shared);
  const GroupSteps steps{group.norm, own, shared + smem.total};
  steps.BeforeMainloop();
  // Taken from one lane, so that the compiler knows it for all.
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  const int turn = warp / kGroupWarps / block.n_groups;
  PartsConsumer<kCodes, kScale, T, kMTiles> consumer(
      args, smem, shared,
      warp / kGroupWarps % block.n_groups * kGroupWarps + warp % kGroupWarps);
  consumer.Run(ring, {turn, args.k_warps, source.stages() / parts}, parts);
  NamedBarrier(kConsumersBarrier, block.consumers);
  float* const sums = reinterpret_cast<float*>(shared);
  const int stride = kTileM * SumStride(args.n_tiles);
  consumer.StoreSums(sums + turn * stride, args.k_warps * stride, parts);
  steps.BeforeEpilogue();
  NamedBarrier(kConsumersBarrier, block.consumers);
  PartsEpilogue<kTileM>(own, pair, work, sums, block.consumers).Run();
  steps.AfterEpilogue(block.consumers);
#endif
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_PARTS_CUH_
