// SPDX-License-Identifier: Apache-2.0
//
// The mainloop of the decode kernel for scales that change within a stage: a
// block of 32 columns is summed by the tensor cores, then scaled and added.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_BLOCK_SCALED_MAINLOOP_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_BLOCK_SCALED_MAINLOOP_CUH_

#include <cstdint>

#include "kernels/cuda/device/decode_gemm/tile_multiplier.cuh"
#include "kernels/cuda/device/pipeline.cuh"
#include "kernels/cuda/device/ptx.cuh"

namespace qgemm::cuda {

// `Tiles` is a TileMultiplier; both must outlive this.
template <typename Tiles>
class BlockScaledMainloop {
 public:
  __device__ __forceinline__ BlockScaledMainloop(const Tiles& tiles,
                                                 float (&sums)[Tiles::kSums])
      : tiles_(tiles), sums_(sums) {}

  // Adds the products of those stages up, which have kGroups groups each. While
  // kBlocks blocks are multiplied the next are decoded.
  template <int kGroups>
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
      const auto pairs = stage.tile.scales.template LoadGroups<kGroups>();
#pragma unroll
      for (int first = 0; first < 4; first += kBlocks) {
        auto& a = operands[first / kBlocks & 1];
        float2 next[kBlocks];
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
          const int group = (first + b) * kGroups / 4;
          tiles_.Decode(stage.tile, first + b, group, a[b]);
          next[b] = Tiles::Scales::Value(pairs.of_group[group]);
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

#endif  // QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_BLOCK_SCALED_MAINLOOP_CUH_
