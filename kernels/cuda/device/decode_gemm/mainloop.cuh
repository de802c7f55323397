// SPDX-License-Identifier: Apache-2.0
//
// The mainloop of the decode kernel where tensor cores add up whole stages, and
// the warps that run it or the other one (block_scaled_mainloop.cuh): a row
// tile each, their sums written to shared memory. Four warps always take the
// same way.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_MAINLOOP_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_MAINLOOP_CUH_

#include <cstdint>

#include "kernels/cuda/device/decode_gemm/block_scaled_mainloop.cuh"
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

  // The same of stages that have a scale each, where codes are loaded ahead: a
  // stage is scaled and added while the next one is multiplied.
  __device__ __forceinline__ void RunStages(const Ring& ring,
                                            const KSlice& slice) {
    int left = (slice.stages - slice.first + slice.step - 1) / slice.step;
    if (left <= 0) return;
    RingReader reader(ring, slice);
    Stage stage = tiles_.LoadStage(reader);
    Operands operands[2] = {};
    StageProducts even = {};
    StageProducts odd = {};
    for (; left >= 2; left -= 2) {
      RunStage(reader, stage, operands, even, odd);
      RunStage(reader, stage, operands, odd, even);
    }
    if (left == 1) {
      RunStage(reader, stage, operands, even, odd);
      EndChain(even.empty, operands, even.scales, even.products);
    } else {
      EndChain(odd.empty, operands, odd.scales, odd.products);
    }
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
          } else if constexpr (Tiles::kBlocks == 1) {
            RunChainAheadInPlace(reader, stages, stage);
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

  // A stage in the tensor cores.
  struct StageProducts {
    float products[kSums];
    float2 scales;
    uint32_t empty;  // the barrier that gives its slot back, or 0
  };

  // Begins to multiply `stage`, adds the one before, `last`, and loads the
  // next. The last blocks of a stage are in the tensor cores before and after.
  __device__ __forceinline__ void RunStage(RingReader& reader, Stage& stage,
                                           Operands (&operands)[2],
                                           StageProducts& begun,
                                           StageProducts& last) {
#pragma unroll
    for (float& product : begun.products) product = 0;
    tiles_.Multiply(stage, 0, operands, begun.products);
    WaitForSteps<1>();
    tiles_.Release(last.empty);
    PinRegisters(last.products);
    AddScaled(last.products, last.scales, sums_);
    begun.scales = stage.tile.scales.OfBlock(tiles_.args(), 0);
    begun.empty = stage.empty;
    reader.Next();
    const Stage next = tiles_.LoadStage(reader);
    tiles_.Multiply(stage, Tiles::kBlocks, operands, begun.products);
    WaitForSteps<1>();
    stage = next;
  }

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

  // RunChainAhead where there are no registers for two stages' codes: the next
  // are loaded while the last block is multiplied.
  __device__ __forceinline__ void RunChainAheadInPlace(RingReader& reader,
                                                       int stages,
                                                       Stage& stage) {
    float products[kSums];
#pragma unroll
    for (float& product : products) product = 0;
    Operands operands[2] = {};
    float2 scales = {1, 1};
    uint32_t before = 0;  // the barrier of the stage before
    for (int i = 0; i < stages; ++i) {
#pragma unroll
      for (int first = 0; first < 4; first += Tiles::kBlocks) {
        WaitForSteps<1>();
        if (first == Tiles::kBlocks) tiles_.Release(before);
        tiles_.Multiply(stage, first, operands, products);
      }
      if constexpr (!Tiles::Tile::kFolded) {
        scales = stage.tile.scales.OfBlock(tiles_.args(), 0);
      }
      before = stage.empty;
      reader.Next();
      stage = tiles_.LoadStage(reader);
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
      switch (tiles_.args().groups) {
        case 1:
          if constexpr (Tiles::kAddsLate) {
            if (HasSlotsAhead(ring, slice.step)) {
              ScaledMainloop<Tiles>(tiles_, sums_).RunStages(ring, slice);
              break;
            }
          }
          ScaledMainloop<Tiles>(tiles_, sums_).Run(ring, slice, 1);
          break;
        case 2:
          BlockScaledMainloop<Tiles>(tiles_, sums_)
              .template Run<2>(ring, slice);
          break;
        default:
          BlockScaledMainloop<Tiles>(tiles_, sums_)
              .template Run<4>(ring, slice);
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
