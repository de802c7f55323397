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

// sums_ has [part][warp that alternates along K][row of A][stride], but of a
// rehearsal.
template <int kTileM>
class PartsEpilogue {
 public:
  // `ends` are those of the block's GEMM, which has `parts`, and of its pair,
  // if `has_pair`; `args` are those of both.
  __device__ __forceinline__ PartsEpilogue(const GemmArguments& args,
                                           const HeldEnd* ends, int parts,
                                           bool has_pair, const BlockWork& work,
                                           const float* sums,
                                           const EpilogueThreads& threads)
      : args_(args),
        ends_(ends),
        parts_(parts),
        has_pair_(has_pair),
        work_(work),
        sums_(sums),
        threads_(threads) {}

  __device__ __forceinline__ void Run() const {
    const unsigned steps = args_.n_tiles * (16 / kColumns);
    threads_.ForEach(work_.rows * steps, [&](unsigned i) {
      Finish(static_cast<int>(i / steps),
             static_cast<int>(i % steps) * kColumns);
    });
  }

 private:
  static constexpr int kColumns = kFinishedColumns<kTileM>;

  __device__ __forceinline__ Columns<kColumns> SumOfPart(int part, int m,
                                                         int row) const {
    const int stride = SumStride(args_.n_tiles);
    const int k_warps = args_.k_warps;
    return SumOfWarps<kColumns>(
        sums_ + part * k_warps * kTileM * stride + m * stride + row, k_warps,
        kTileM * stride);
  }

  // Sums of the `place`-th of two GEMMs, or of one, whose parts are added as
  // the blocks of a cluster do it.
  __device__ __forceinline__ Columns<kColumns> SumOf(int place, int m,
                                                     int row) const {
    if (threads_.rehearses) return {};
    if (has_pair_) return SumOfPart(place, m, row);
    if (parts_ == 1) return SumOfPart(0, m, row);
    Columns<kColumns> sum = {};
    for (int part = 0; part < parts_; ++part) {
      sum = sum + SumOfPart(part, m, row);
    }
    return sum;
  }

  __device__ __forceinline__ void Finish(int m, int row) const {
    const int64_t n = work_.n_block * args_.n_tiles * 16 + row;
    if (n >= ends_[0].result.n) return;
    Columns<kColumns> before = {};  // what the first of two ends with
    // A loop, so that both go through the same code.
#pragma unroll 1
    for (int place = 0; place < (has_pair_ ? 2 : 1); ++place) {
      const HeldEnd& end = ends_[place];
      Columns<kColumns> x = SumOf(place, m, row);
      ScaleSums(end.result, n, x);
      StoreThroughOps{end.ops, threads_.rehearses}.Apply(end.result, m, n,
                                                         before, x);
      before = x;
    }
  }

  const GemmArguments& args_;
  const HeldEnd* const ends_;
  const int parts_;
  const bool has_pair_;
  const BlockWork& work_;
  const float* const sums_;
  const EpilogueThreads threads_;
};

// Shared memory of a block, whose sums are those of all parts.
__device__ __forceinline__ DecodeSmemLayout
PartsSmemLayoutOf(const GemmArguments& args, int codes, int tile_m, int parts) {
  const DecodeSmemShape shape = {codes,        tile_m, args.stage_bytes,
                                 args.n_tiles, 1,      args.k_warps * parts};
  return DecodeSmemLayoutOf(shape, args.slots);
}

// The part of the warps that multiply, up to the epilogue; a part has `stages`.
template <int kCodes, ScaleKind kScale, typename T, int kMTiles>
__device__ __forceinline__ void MultiplyParts(const GemmArguments& args,
                                              const DecodeSmemLayout& smem,
                                              const Ring& ring, char* shared,
                                              int parts, int stages,
                                              const GroupSteps& steps) {
  const BlockShape block(args);
  PrefetchKernelParams(args);
  SetUpTable<kCodes, T>(args, block, shared);
  steps.BeforeMainloop();
  // Taken from one lane, so that the compiler knows it for all.
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  const int turn = warp / kGroupWarps / block.n_groups;
  PartsConsumer<kCodes, kScale, T, kMTiles> consumer(
      args, smem, shared,
      warp / kGroupWarps % block.n_groups * kGroupWarps + warp % kGroupWarps);
  consumer.Run(ring, {turn, args.k_warps, stages}, parts);
  NamedBarrier(kConsumersBarrier, block.consumers);
  const int stride = kMTiles * 8 * SumStride(args.n_tiles);
  consumer.StoreSums(reinterpret_cast<float*>(shared) + turn * stride,
                     args.k_warps * stride, parts);
  steps.BeforeEpilogue();
  NamedBarrier(kConsumersBarrier, block.consumers);
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
  auto& scratch = *reinterpret_cast<GroupScratch*>(shared + smem.total);
  const GroupSteps steps{group.norm, own, scratch, block.consumers};
  const bool multiplies = thread < block.consumers;
  if (multiplies) {
    MultiplyParts<kCodes, kScale, T, kMTiles>(args, smem, ring, shared, parts,
                                              source.stages() / parts, steps);
  } else {
    Produce<kMTiles>(args, smem, work, ring, shared, WaitFor(group), source);
    if (!IsFree(thread - block.consumers)) return;
    Hold(own, scratch.ends[0]);
    if (pair != nullptr) Hold(*pair, scratch.ends[1]);
    TellHeld(block.consumers);
  }
  PartsEpilogue<kTileM>(args, scratch.ends, parts, pair != nullptr, work,
                        reinterpret_cast<float*>(shared),
                        {block.consumers, !multiplies})
      .Run();
  if (multiplies) steps.AfterEpilogue();
#endif
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_PARTS_CUH_
