// SPDX-License-Identifier: Apache-2.0
//
// The mainloops of the decode kernel, by how often scales change along K, and
// the warps that run one: a row tile each, their sums written to shared memory.
// Four warps always take the same way.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_MAINLOOP_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_MAINLOOP_CUH_

#include <cstdint>

#include "kernels/cuda/device/decode_gemm/tile_multiplier.cuh"
#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/pipeline.cuh"
#include "kernels/cuda/device/ptx.cuh"

namespace qgemm::cuda {

// `Tiles` is a TileMultiplier; both must outlive this.
template <typename Tiles>
class ScaledMainloop {
 public:
  __device__ __forceinline__ ScaledMainloop(const Tiles& tiles,
                                            float (&sums)[Tiles::kSums])
      : tiles_(tiles), sums_(sums) {}

  // Adds the products of those stages up, `chain_stages` at a time.
  __device__ __forceinline__ void Run(const Ring& ring, const KSlice& slice,
                                      int chain_stages) {
    RunParts(ring, slice, chain_stages, 1, [](int /*part*/) {});
  }

  // The same for several parts of as many stages, one behind the other in the
  // ring, each of a multiple of slice.step stages. Calls part_end(part) after
  // each.
  template <typename PartEnd>
  __device__ __forceinline__ void RunParts(const Ring& ring,
                                           const KSlice& slice,
                                           int chain_stages, int parts,
                                           const PartEnd& part_end) {
    const int of_part =
        (slice.stages - slice.first + slice.step - 1) / slice.step;
    if (of_part <= 0) return;
    RingReader reader(ring, slice);
    if (Tiles::kLoadsAhead && HasSlotsAhead(ring, slice.step)) {
      Stage stage = tiles_.LoadStage(reader);
      Operands entries;
      if constexpr (Tiles::kLooksAhead) tiles_.LookUp(stage.tile, 0, entries);
      for (int part = 0; part < parts; ++part) {
        for (int left = of_part; left > 0;) {
          const int stages = left < chain_stages ? left : chain_stages;
          left -= stages;
          if constexpr (Tiles::kLooksAhead) {
            RunChainLookingAhead(reader, stages, stage, entries);
          } else {
            RunChainAhead(reader, stages, stage);
          }
        }
        part_end(part);
      }
      return;
    }
    // A warp that has one slot must give it back to get the next stage.
    const bool one_slot = ring.slots == slice.step;
    for (int part = 0; part < parts; ++part) {
      for (int left = of_part; left > 0;) {
        const int stages = left < chain_stages ? left : chain_stages;
        left -= stages;
        RunChain(reader, stages, one_slot);
      }
      part_end(part);
    }
  }

 private:
  using Stage = typename Tiles::Stage;
  using Operands = typename Tiles::Operands;
  static constexpr int kSums = Tiles::kSums;

  // Loads a stage's codes before the one before is done with. `stage` is the
  // first, and then the first of the next chain.
  __device__ __forceinline__ void RunChainAhead(RingReader& reader, int stages,
                                                Stage& stage) {
    float products[kSums];
#pragma unroll
    for (float& product : products) product = 0;
    Operands operands[2] = {};
    float2 scales = {1, 1};
    uint32_t before = 0;  // the barrier of the stage before
    for (int i = 0; i < stages; ++i) {
      WaitForSteps<1>();
      tiles_.Multiply(stage, 0, operands, products);
      WaitForSteps<1>();
      tiles_.Release(before);
      if constexpr (!Tiles::Tile::kFolded) {
        scales = stage.tile.scales.OfBlock(tiles_.args(), 0);
      }
      reader.Next();
      const Stage next = tiles_.LoadStage(reader);
      tiles_.Multiply(stage, Tiles::kBlocks, operands, products);
      before = stage.empty;
      stage = next;
    }
    EndChain(before, operands, scales, products);
  }

  // RunChainAhead that also looks entries up before the multiplication before
  // theirs. `entries` are those of the stage's first blocks, and then of the
  // next chain's.
  __device__ __forceinline__ void RunChainLookingAhead(RingReader& reader,
                                                       int stages, Stage& stage,
                                                       Operands& entries) {
    float products[kSums];
#pragma unroll
    for (float& product : products) product = 0;
    Operands operands[2] = {};
    uint32_t before = 0;  // the barrier of the stage before
    for (int i = 0; i < stages; ++i) {
      WaitForSteps<1>();
      tiles_.MultiplyScales(stage.tile, 0, entries, operands[0]);
      tiles_.LookUp(stage.tile, Tiles::kBlocks, entries);
      tiles_.MultiplyOperands(stage, 0, operands[0], products);
      WaitForSteps<1>();
      tiles_.Release(before);
      tiles_.MultiplyScales(stage.tile, Tiles::kBlocks, entries, operands[1]);
      tiles_.MultiplyOperands(stage, Tiles::kBlocks, operands[1], products);
      before = stage.empty;
      reader.Next();
      stage = tiles_.LoadStage(reader);
      tiles_.LookUp(stage.tile, 0, entries);
    }
    EndChain(before, operands, make_float2(1, 1), products);
  }

  __device__ __forceinline__ void RunChain(RingReader& reader, int stages,
                                           bool one_slot) {
    float products[kSums];
#pragma unroll
    for (float& product : products) product = 0;
    Operands operands[2] = {};
    float2 scales = {1, 1};
    uint32_t before = 0;  // the barrier of the stage before
    for (int i = 0; i < stages; ++i) {
      const Stage stage = tiles_.LoadStage(reader);
      if constexpr (!Tiles::Tile::kFolded) {
        scales = stage.tile.scales.OfBlock(tiles_.args(), 0);
      }
#pragma unroll
      for (int first = 0; first < 4; first += Tiles::kBlocks) {
        WaitForSteps<1>();
        if (first == Tiles::kBlocks) tiles_.Release(before);
        tiles_.Multiply(stage, first, operands, products);
      }
      before = stage.empty;
      if (one_slot) {
        WaitForSteps<0>();
        tiles_.Release(before);
        before = 0;
      }
      reader.Next();
    }
    EndChain(before, operands, scales, products);
  }

  // `before` is the barrier of the chain's last stage, or 0.
  __device__ __forceinline__ void EndChain(uint32_t before,
                                           Operands (&operands)[2],
                                           float2 scales,
                                           float (&products)[kSums]) {
    WaitForSteps<0>();
    tiles_.Release(before);
    Tiles::PinOperands(operands[0]);
    Tiles::PinOperands(operands[1]);
    PinRegisters(products);
    AddScaled(products, scales, sums_);
  }

  const Tiles& tiles_;
  float (&sums_)[Tiles::kSums];
};

// `Tiles` is a TileMultiplier; both must outlive this.
template <typename Tiles>
class BlockScaledMainloop {
 public:
  __device__ __forceinline__ BlockScaledMainloop(const Tiles& tiles,
                                                 float (&sums)[Tiles::kSums])
      : tiles_(tiles), sums_(sums) {}

  // Adds the products of those stages up. While kBlocks blocks are multiplied
  // the next are decoded.
  __device__ __forceinline__ void Run(const Ring& ring, const KSlice& slice) {
    RingReader reader(ring, slice);
    const bool one_slot = ring.slots == slice.step;
    float products[kBlocks][kSums];
#pragma unroll
    for (auto& block : products) {
#pragma unroll
      for (float& product : block) product = 0;
    }
    typename Tiles::Operands operands[2] = {};
    float2 scales[kBlocks] = {};
    uint32_t before = 0;  // the barrier of the stage before
    for (int i = slice.first; i < slice.stages; i += slice.step) {
      const typename Tiles::Stage stage = tiles_.LoadStage(reader);
#pragma unroll
      for (int first = 0; first < 4; first += kBlocks) {
        auto& a = operands[first / kBlocks & 1];
        float2 next[kBlocks];
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
          tiles_.Decode(stage.tile, first + b, a[b]);
          next[b] = stage.tile.scales.OfBlock(tiles_.args(), first + b);
        }
        WaitForSteps<0>();
        Tiles::PinOperands(operands[1 - (first / kBlocks & 1)]);
        AddBlocks(products, scales);
        if (first == 0) tiles_.Release(before);
        tiles_.MultiplyBlocks(stage, first, a, products);
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) scales[b] = next[b];
      }
      before = stage.empty;
      if (one_slot) {
        WaitForSteps<0>();
        tiles_.Release(before);
        before = 0;
      }
      reader.Next();
    }
    WaitForSteps<0>();
    Tiles::PinOperands(operands[(4 / kBlocks - 1) & 1]);
    AddBlocks(products, scales);
  }

 private:
  static constexpr int kSums = Tiles::kSums;
  static constexpr int kBlocks = Tiles::kBlocks;

  __device__ __forceinline__ void AddBlocks(float (&products)[kBlocks][kSums],
                                            const float2 (&scales)[kBlocks]) {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      PinRegisters(products[b]);
      AddScaled(products[b], scales[b], sums_);
    }
  }

  const Tiles& tiles_;
  float (&sums_)[kSums];
};

// Writes a warp's sums of a row tile to [row of A][row of the row block].
template <typename Tiles>
__device__ __forceinline__ void StoreTileSums(const Tiles& tiles, int tile,
                                              const float (&sums)[Tiles::kSums],
                                              float* all) {
  const int lane = tiles.lane();
  const int stride = SumStride(tiles.args().n_tiles);
#pragma unroll
  for (int i = 0; i < Tiles::kSums; ++i) {
    const int m = (i >> 2) * 8 + (lane & 3) * 2 + (i & 1);
    const int row = tile * 16 + (lane >> 2) + (i >> 1 & 1) * 8;
    all[m * stride + row] = sums[i];
  }
}

// Tensor cores truncate as they add, so that they add 1024 columns at most.
inline constexpr int kChainStages = 8;

template <int kCodes, ScaleKind kScale, bool kZeros, typename T, int kMTiles>
class DecodeConsumer {
 public:
  // A warp for which there is no row tile multiplies the last for nobody.
  __device__ __forceinline__ DecodeConsumer(const GemmArguments& args,
                                            const DecodeSmemLayout& smem,
                                            const char* shared, int tile)
      : exists_(tile < args.n_tiles),
        tile_(exists_ ? tile : args.n_tiles - 1),
        tiles_(args, smem, shared, tile_) {
#pragma unroll
    for (float& sum : sums_) sum = 0;
  }

  // Adds the products of those stages up.
  __device__ __forceinline__ void Run(const Ring& ring, const KSlice& slice) {
    if constexpr (Tiles::Tile::kFolded || kScale == ScaleKind::kRow) {
      ScaledMainloop<Tiles>(tiles_, sums_).Run(ring, slice, kChainStages);
    } else {
      if (tiles_.args().groups == 1) {
        ScaledMainloop<Tiles>(tiles_, sums_).Run(ring, slice, 1);
      } else {
        BlockScaledMainloop<Tiles>(tiles_, sums_).Run(ring, slice);
      }
    }
  }

  // Writes the sums to [row of A][row of the row block].
  __device__ __forceinline__ void StoreSums(float* all) const {
    if (exists_) StoreTileSums(tiles_, tile_, sums_, all);
  }

 private:
  using Tiles = TileMultiplier<kCodes, kScale, kZeros, T, kMTiles>;

  const bool exists_;
  const int tile_;
  const Tiles tiles_;
  float sums_[Tiles::kSums];
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_MAINLOOP_CUH_
