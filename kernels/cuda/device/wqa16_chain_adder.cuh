// SPDX-License-Identifier: Apache-2.0
//
// Sums of layers whose scales change with every stage or less often: the tensor
// cores add a chain of stages, then their sum is scaled and added.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_WQA16_CHAIN_ADDER_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_WQA16_CHAIN_ADDER_CUH_

#include <cstdint>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/wqa16_multiply.cuh"
#include "kernels/cuda/device/wqa16_ring.cuh"
#include "kernels/cuda/device/wqa16_tile_multiplier.cuh"

namespace qgemm::cuda {

// `Tiles` is a TileMultiplier; both must outlive this.
template <typename Tiles>
class ChainAdder {
 public:
  __device__ __forceinline__ ChainAdder(const Tiles& tiles,
                                        float (&sums)[Tiles::kSums])
      : tiles_(tiles), sums_(sums) {}

  // Adds the products of those stages up, `chain_stages` at a time.
  __device__ __forceinline__ void Run(const Ring& ring, const Turns& turns,
                                      int chain_stages) {
    int left = (turns.stages - turns.first + turns.step - 1) / turns.step;
    if (left <= 0) return;
    RingReader reader(ring, turns);
    if (Tiles::kLoadsAhead && HasSlotsAhead(ring, turns.step)) {
      Stage stage = tiles_.LoadStage(reader);
      Operands entries;
      if constexpr (Tiles::kLooksAhead) tiles_.LookUp(stage.tile, 0, entries);
      while (left > 0) {
        const int stages = left < chain_stages ? left : chain_stages;
        left -= stages;
        if constexpr (Tiles::kLooksAhead) {
          RunChainLookingAhead(reader, stages, stage, entries);
        } else {
          RunChainAhead(reader, stages, stage);
        }
      }
      return;
    }
    // A warp that has one slot must give it back to get the next stage.
    const bool one_slot = ring.slots == turns.step;
    while (left > 0) {
      const int stages = left < chain_stages ? left : chain_stages;
      left -= stages;
      RunChain(reader, stages, one_slot);
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

  // As RunChainAhead; and looks entries up before the multiplication before
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

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WQA16_CHAIN_ADDER_CUH_
