// SPDX-License-Identifier: Apache-2.0
//
// Sums of layers with a scale for every 32 or 64 columns: each block of 32 has
// products of its own, which are scaled and added.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_WQA16_BLOCK_ADDER_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_WQA16_BLOCK_ADDER_CUH_

#include <cstdint>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/wqa16_multiply.cuh"
#include "kernels/cuda/device/wqa16_ring.cuh"
#include "kernels/cuda/device/wqa16_tile_multiplier.cuh"

namespace qgemm::cuda {

// `Tiles` is a TileMultiplier; both must outlive this.
template <typename Tiles>
class BlockAdder {
 public:
  __device__ __forceinline__ BlockAdder(const Tiles& tiles,
                                        float (&sums)[Tiles::kSums])
      : tiles_(tiles), sums_(sums) {}

  // Adds the products of those stages up. While kBlocks blocks are multiplied
  // the next are decoded.
  __device__ __forceinline__ void Run(const Ring& ring, const Turns& turns) {
    RingReader reader(ring, turns);
    const bool one_slot = ring.slots == turns.step;
    float products[kBlocks][kSums];
#pragma unroll
    for (auto& block : products) {
#pragma unroll
      for (float& product : block) product = 0;
    }
    typename Tiles::Operands operands[2] = {};
    float2 scales[kBlocks] = {};
    uint32_t before = 0;  // the barrier of the stage before
    for (int i = turns.first; i < turns.stages; i += turns.step) {
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

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WQA16_BLOCK_ADDER_CUH_
