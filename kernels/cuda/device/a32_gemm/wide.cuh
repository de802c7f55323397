// SPDX-License-Identifier: Apache-2.0
//
// A warp's row tile in mode A32 with 8 to 32 rows of A: four warps multiply
// together by wgmma, on chips without it each alone by mma.sync
// (tile_multiplier.cuh). Both have the bits of A32Consumer, since wgmma adds as
// mma.sync does.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_WIDE_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_WIDE_CUH_

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/device/a32_gemm/weights.cuh"
#include "kernels/cuda/device/decode_gemm/tile_multiplier.cuh"
#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/pipeline.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/layout/a32_layout.h"
#include "kernels/cuda/plan/a32_plan.h"

namespace qgemm::cuda {

// The parameters are those of A32Consumer.
template <int kCodes, ScaleKind kScale, int kTileM>
class A32WideConsumer {
 public:
  // A warp for which there is no row tile multiplies the last for nobody.
  __device__ __forceinline__ A32WideConsumer(const A32Arguments& args,
                                             const DecodeSmemLayout& smem,
                                             const char* shared, int tile)
      : args_(args),
        shared_(shared),
        exists_(tile < args.gemm.n_tiles),
        tile_(exists_ ? tile : args.gemm.n_tiles - 1),
        lane_(KeepInRegister(threadIdx.x % 32)),
        panels_(SharedAddress(shared) + smem.activations),
        weights_(args, smem.weights, tile_, lane_) {
#pragma unroll
    for (float& sum : sums_) sum = 0;
  }

  // Adds the products of those stages up.
  __device__ __forceinline__ void Run(const Ring& ring, const KSlice& slice) {
    if constexpr (kCodes == kTernaryCodes) {
      RunChains(ring, slice);
    } else {
      RunStages(ring, slice);
    }
  }

  // Writes the sums to [row of A][row of the row block].
  __device__ __forceinline__ void StoreSums(float* all) const {
    if (!exists_) return;
    const int stride = SumStride(args_.gemm.n_tiles);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int m = (i >> 2) * 8 + (lane_ & 3) * 2 + (i & 1);
      const int row = tile_ * kTileRows + (lane_ >> 2) + (i >> 1 & 1) * 8;
      all[m * stride + row] = sums_[i];
    }
  }

 private:
  static constexpr int kMTiles = kTileM / 8;
  static constexpr int kSums = kMTiles * 4;
  static_assert(A32PanelBytes(kTileM) % 1024 == 0, "the swizzle's unit");
  using Operands = uint32_t[2][4];  // of a block
  using Parts = float[kA32Parts * kSums];

  // Adds stages without scales: the tensor cores add up two of them. A stage's
  // slot is given back while the next one is multiplied.
  __device__ __forceinline__ void RunChains(const Ring& ring,
                                            const KSlice& slice) {
    static_assert(kA32ChainStages == 2, "a chain is two stages");
    RingReader reader(ring, slice);
    Operands operands[2] = {};
    Parts parts = {};
    // A warp that has one slot must give it back to get the next stage.
    const bool one_slot = ring.slots == slice.step;
    int stage = slice.first;
    for (; stage + slice.step < slice.stages; stage += 2 * slice.step) {
      uint32_t empty = MultiplyChained<false>(reader, 0, operands, parts);
      if (one_slot) {
        WaitForSteps<0>();
        ReleaseSlot(empty, lane_);
        empty = 0;
      }
      EndChain(MultiplyChained<true>(reader, empty, operands, parts), operands,
               parts);
    }
    if (stage < slice.stages) {
      EndChain(MultiplyChained<false>(reader, 0, operands, parts), operands,
               parts);
    }
  }

  // parts = (kAdd ? parts : 0) + the stage; returns the barrier that gives its
  // slot back. `before` is that of the stage before, or 0.
  template <bool kAdd>
  __device__ __forceinline__ uint32_t MultiplyChained(RingReader& reader,
                                                      uint32_t before,
                                                      Operands (&operands)[2],
                                                      Parts& parts) {
    reader.Wait();
    const A32Tile<kCodes, kScale> tile(
        args_, shared_ + reader.slot() * args_.gemm.stage_bytes, weights_);
    const ActivationPanel panels =
        panels_.At(reader.slot() * A32StageBytes(kTileM));
    const uint32_t empty = reader.empty();
    reader.Next();
#pragma unroll
    for (int block = 0; block < kA32TileBlocks; ++block) {
      Operands& a = operands[block & 1];
      WaitForSteps<1>();
      if (kAdd && block == 1) ReleaseSlot(before, lane_);
      Pin(a);
      tile.Decode(block, a);
      if (kAdd || block > 0) {
        Multiply<true>(panels, block, a, parts);
      } else {
        Multiply<false>(panels, block, a, parts);
      }
    }
    return empty;
  }

  __device__ __forceinline__ void EndChain(uint32_t last,
                                           Operands (&operands)[2],
                                           Parts& parts) {
    WaitForSteps<0>();
    ReleaseSlot(last, lane_);
    Pin(operands[0]);
    Pin(operands[1]);
    PinRegisters(parts);
    AddJoined(parts, make_float2(1, 1), sums_);
  }

  __device__ __forceinline__ void RunStages(const Ring& ring,
                                            const KSlice& slice) {
    RingReader reader(ring, slice);
    Operands operands[2] = {};
    Parts parts = {};
    for (int stage = slice.first; stage < slice.stages; stage += slice.step) {
      reader.Wait();
      const A32Tile<kCodes, kScale> tile(
          args_, shared_ + reader.slot() * args_.gemm.stage_bytes, weights_);
      const ActivationPanel panels =
          panels_.At(reader.slot() * A32StageBytes(kTileM));
      if constexpr (kScale == ScaleKind::kRow) {
        MultiplyStage(tile, panels, operands, parts);
        const float2 scales = tile.Scales();
        ReleaseSlot(reader.empty(), lane_);
        AddJoined(parts, scales, sums_);
      } else {
        float of_stage[kSums] = {};
        AddBlocks(tile, panels, operands[0], parts, of_stage);
        ReleaseSlot(reader.empty(), lane_);
#pragma unroll
        for (int i = 0; i < kSums; ++i) sums_[i] += of_stage[i];
      }
      reader.Next();
    }
  }

  // parts = the stage. A block is decoded while the one before is multiplied;
  // operands are written when the multiplication that read them is done.
  template <typename Tile>
  static __device__ __forceinline__ void MultiplyStage(
      const Tile& tile, const ActivationPanel& panels, Operands (&operands)[2],
      Parts& parts) {
#pragma unroll
    for (int block = 0; block < kA32TileBlocks; ++block) {
      Operands& a = operands[block & 1];
      WaitForSteps<1>();
      Pin(a);
      tile.Decode(block, a);
      if (block == 0) {
        Multiply<false>(panels, block, a, parts);
      } else {
        Multiply<true>(panels, block, a, parts);
      }
    }
    WaitForSteps<0>();
    Pin(operands[0]);
    Pin(operands[1]);
    PinRegisters(parts);
  }

  // sums += the blocks of the stage, each scaled. There are no registers for
  // another block's operands: other groups of warps keep the tensor cores busy.
  template <typename Tile>
  static __device__ __forceinline__ void AddBlocks(
      const Tile& tile, const ActivationPanel& panels, Operands& a,
      Parts& parts, float (&sums)[kSums]) {
#pragma unroll
    for (int block = 0; block < kA32TileBlocks; ++block) {
      tile.Decode(block, a);
      Multiply<false>(panels, block, a, parts);
      const float2 scales = tile.ScalesOf(block);
      WaitForSteps<0>();
      Pin(a);
      PinRegisters(parts);
      AddJoined(parts, scales, sums);
    }
  }

  // Begins parts = (kAdd ? parts : 0) + block `block` of the stage. The panels
  // of a half's parts are one of as many more rows.
  template <bool kAdd>
  static __device__ __forceinline__ void Multiply(const ActivationPanel& panels,
                                                  int block, Operands& a,
                                                  Parts& parts) {
    constexpr int kAllTiles = kA32Parts * kMTiles;
    const ActivationPanel panel =
        panels.At(block / 2 * kA32Parts * A32PanelBytes(kTileM));
    Pin(a);
    PinRegisters(parts);
    BeginSteps();
    panel.template Multiply<__nv_bfloat16, kAllTiles, kAdd>(parts, a[0],
                                                            2 * (block & 1));
    panel.template Multiply<__nv_bfloat16, kAllTiles, true>(
        parts, a[1], 2 * (block & 1) + 1);
    CommitSteps();
  }

  // sums += the parts together, scaled.
  static __device__ __forceinline__ void AddJoined(const Parts& parts,
                                                   float2 scales,
                                                   float (&sums)[kSums]) {
    float joined[kSums];
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      joined[i] = parts[i] + (parts[kSums + i] + parts[2 * kSums + i]);
    }
    AddScaled(joined, scales, sums);
  }

  static __device__ __forceinline__ void Pin(Operands& a) {
    PinRegisters(a[0]);
    PinRegisters(a[1]);
  }

  const A32Arguments& args_;
  const char* const shared_;
  const bool exists_;
  const int tile_;
  const int lane_;
  const ActivationPanel panels_;  // of slot 0
  const A32WeightPlace weights_;
  float sums_[kSums];
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_WIDE_CUH_
