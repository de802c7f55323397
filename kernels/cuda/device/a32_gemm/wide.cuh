// SPDX-License-Identifier: Apache-2.0
//
// A warp's row tile in mode A32 with 16 or 32 rows of A: four warps multiply
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
      RunStages<false>(ring, slice);
    } else if (args_.has_zeros) {
      RunStages<true>(ring, slice);
    } else {
      RunStages<false>(ring, slice);
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
  using Parts = float[kA32Parts][kSums];

  template <bool kZeros>
  __device__ __forceinline__ void RunStages(const Ring& ring,
                                            const KSlice& slice) {
    RingReader reader(ring, slice);
    Operands operands[2] = {};
    Parts parts = {};
    for (int stage = slice.first; stage < slice.stages; stage += slice.step) {
      reader.Wait();
      const A32Tile<kCodes, kZeros> tile(
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
    Pin(parts);
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
      const float2 scales = tile.template ScalesOf<kScale>(block);
      WaitForSteps<0>();
      Pin(a);
      Pin(parts);
      AddJoined(parts, scales, sums);
    }
  }

  // Begins parts = (kAdd ? parts : 0) + block `block` of the stage.
  template <bool kAdd>
  static __device__ __forceinline__ void Multiply(const ActivationPanel& panels,
                                                  int block, Operands& a,
                                                  Parts& parts) {
    Pin(a);
    Pin(parts);
    BeginSteps();
#pragma unroll
    for (int part = 0; part < kA32Parts; ++part) {
      PanelOf(panels, block, part)
          .template Multiply<__nv_bfloat16, kMTiles, kAdd>(parts[part], a[0],
                                                           2 * (block & 1));
    }
#pragma unroll
    for (int part = 0; part < kA32Parts; ++part) {
      PanelOf(panels, block, part)
          .template Multiply<__nv_bfloat16, kMTiles, true>(parts[part], a[1],
                                                           2 * (block & 1) + 1);
    }
    CommitSteps();
  }

  static __device__ __forceinline__ ActivationPanel
  PanelOf(const ActivationPanel& panels, int block, int part) {
    return panels.At((block / 2 * kA32Parts + part) * A32PanelBytes(kTileM));
  }

  // sums += the parts together, scaled.
  static __device__ __forceinline__ void AddJoined(const Parts& parts,
                                                   float2 scales,
                                                   float (&sums)[kSums]) {
    float joined[kSums];
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      joined[i] = parts[0][i] + (parts[1][i] + parts[2][i]);
    }
    AddScaled(joined, scales, sums);
  }

  static __device__ __forceinline__ void Pin(Operands& a) {
    PinRegisters(a[0]);
    PinRegisters(a[1]);
  }
  static __device__ __forceinline__ void Pin(Parts& parts) {
#pragma unroll
    for (auto& part : parts) PinRegisters(part);
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
