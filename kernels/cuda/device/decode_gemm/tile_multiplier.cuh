// SPDX-License-Identifier: Apache-2.0
//
// A warp's row tile: decodes blocks of 32 of its columns into registers and has
// the tensor cores multiply them with the rows of A. Hopper multiplies by
// wgmma, four warps together and asynchronously; other chips by mma.sync, a
// warp alone.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_TILE_MULTIPLIER_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_TILE_MULTIPLIER_CUH_

#include <cstdint>

#include "kernels/cuda/device/decode_gemm/producer.cuh"
#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/pipeline.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/weight_tile.cuh"
#include "kernels/cuda/device/wgmma.cuh"
#include "kernels/cuda/plan/smem_layout.h"

namespace qgemm::cuda {

#if QGEMM_HAS_WGMMA

// Rows of A by 64 columns in shared memory (DecodeProducer says how they
// stand).
class ActivationPanel {
 public:
  __device__ __forceinline__ explicit ActivationPanel(uint32_t shared)
      : descriptor_(SwizzledDescriptor(KeepInRegister(shared))) {}

  // The panel that is so many bytes further on.
  __device__ __forceinline__ ActivationPanel At(int bytes) const {
    ActivationPanel panel = *this;
    panel.descriptor_ = descriptor_.Advanced(bytes >> 4);
    return panel;
  }

  // d = (kAdd ? d : 0) + a * columns 16 step to 16 step + 15.
  template <typename T, int kMTiles, bool kAdd>
  __device__ __forceinline__ void Multiply(float (&d)[kMTiles * 4],
                                           const uint32_t (&a)[4],
                                           int step) const {
    Wgmma<T, 8 * kMTiles>::template Run<kAdd>(
        d, a, descriptor_.Advanced(2 * step).value);
  }

 private:
  SharedDescriptor descriptor_;
};

// Between the last access of operands or products and the next steps.
__device__ __forceinline__ void BeginSteps() { WgmmaFence(); }
__device__ __forceinline__ void CommitSteps() { WgmmaCommit(); }
// Until all but the last kPending commits are done.
template <int kPending>
__device__ __forceinline__ void WaitForSteps() {
  WgmmaWait<kPending>();
}

#else

class ActivationPanel {
 public:
  __device__ __forceinline__ explicit ActivationPanel(uint32_t shared)
      : shared_(shared) {}

  __device__ __forceinline__ ActivationPanel At(int bytes) const {
    return ActivationPanel(shared_ + bytes);
  }

  template <typename T, int kMTiles, bool kAdd>
  __device__ __forceinline__ void Multiply(float (&d)[kMTiles * 4],
                                           const uint32_t (&a)[4],
                                           int step) const {
    const int lane = threadIdx.x % 32;
    const int row = lane & 7;
    const uint32_t piece = (2 * step + (lane >> 3 & 1)) ^ row;
#pragma unroll
    for (int tile = 0; tile < kMTiles; ++tile) {
      uint32_t b[2];
      LoadMatrices(shared_ + (tile * 8 + row) * kPanelRowBytes + piece * 16, b);
      float sums[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] = kAdd ? d[tile * 4 + i] : 0;
      Mma16816<T>(sums, a, b[0], b[1]);
#pragma unroll
      for (int i = 0; i < 4; ++i) d[tile * 4 + i] = sums[i];
    }
  }

 private:
  uint32_t shared_;
};

__device__ __forceinline__ void BeginSteps() {}
__device__ __forceinline__ void CommitSteps() {}
template <int kPending>
__device__ __forceinline__ void WaitForSteps() {}

#endif

// sums += products, scaled by row: `scales` are those of a lane's two.
template <int kSums>
__device__ __forceinline__ void AddScaled(const float (&products)[kSums],
                                          float2 scales, float (&sums)[kSums]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const float scale = (i >> 1 & 1) == 0 ? scales.x : scales.y;
    sums[i] = fmaf(products[i], scale, sums[i]);
  }
}

template <int kCodes, ScaleKind kScale, bool kZeros, typename T, int kMTiles>
class TileMultiplier {
 public:
  using Tile = StageTile<kCodes, kScale, kZeros, T>;
  using Scales = TileScales<kScale>;
  static constexpr int kSums = kMTiles * 4;
  // Blocks of 32 columns that are decoded and multiplied at a time: as many as
  // there are registers for.
  static constexpr int kBlocks = kMTiles == 8 ? 1 : 2;
  // Codes are loaded before the stage before is done with, where the warps
  // rather than memory bound the time.
  static constexpr bool kLoadsAhead = kZeros || (kMTiles < 8 && kCodes <= 3);
  // Products of one stage are added while the next one is multiplied, where
  // there are registers for both.
  static constexpr bool kAddsLate = kLoadsAhead && kMTiles <= 2;
  // With 2 bits an entry of the table is four weights, and there are registers
  // for those of the blocks to come.
  static constexpr bool kLooksAhead =
      kLoadsAhead && Tile::kFolded && kCodes == 2;
  using Operands = uint32_t[kBlocks][2][4];

  // A stage in shared memory; its codes in registers.
  struct Stage {
    Tile tile;
    int slot;
    uint32_t empty;  // the barrier that gives the slot back
  };

  __device__ __forceinline__ TileMultiplier(const GemmArguments& args,
                                            const DecodeSmemLayout& smem,
                                            const char* shared, int tile)
      : args_(args),
        shared_(shared),
        lane_(KeepInRegister(threadIdx.x % 32)),
        place_(Tile::PlaceOf(args, smem.weights, tile, lane_)),
        panel_(SharedAddress(shared) + smem.activations) {}

  __device__ __forceinline__ const GemmArguments& args() const { return args_; }
  __device__ __forceinline__ int lane() const { return lane_; }

  // Returns once the stage is there.
  __device__ __forceinline__ Stage LoadStage(const RingReader& reader) const {
    Stage stage;
    stage.slot = reader.slot();
    stage.empty = reader.empty();
    reader.Wait();
    stage.tile.Load(shared_ + stage.slot * args_.stage_bytes, place_);
    return stage;
  }

  // Gives a stage's slot back, if `empty_barrier` is not 0.
  __device__ __forceinline__ void Release(uint32_t empty_barrier) const {
    ReleaseSlot(empty_barrier, lane_);
  }

  // products += kBlocks blocks of the stage, whose zeros are the same in all of
  // it, from block `first` on. The operands of the blocks before the last are
  // no longer read.
  __device__ __forceinline__ void Multiply(const Stage& stage, int first,
                                           Operands (&operands)[2],
                                           float (&products)[kSums]) const {
    Operands& a = operands[first / kBlocks & 1];
    PinOperands(a);  // read by the tensor cores until here
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      stage.tile.DecodeOfOneZero(first + b, shared_, lane_, a[b]);
    }
    MultiplyOperands(stage, first, a, products);
  }

  // Multiply in three parts: the table's entries of kBlocks blocks,
  __device__ __forceinline__ void LookUp(const Tile& tile, int first,
                                         Operands& entries) const {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      tile.LookUp(first + b, shared_, lane_, entries[b]);
    }
    PinOperands(entries);
  }
  // what they become,
  __device__ __forceinline__ void MultiplyScales(const Tile& tile, int first,
                                                 const Operands& entries,
                                                 Operands& a) const {
    PinOperands(a);  // read by the tensor cores until here
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      tile.MultiplyScales(first + b, entries[b], a[b]);
    }
  }
  // and the multiplication.
  __device__ __forceinline__ void MultiplyOperands(
      const Stage& stage, int first, Operands& a,
      float (&products)[kSums]) const {
    const ActivationPanel panel = PanelOf(stage.slot, first / 2);
    PinOperands(a);
    PinRegisters(products);
    BeginSteps();
#pragma unroll
    for (int step = 0; step < 2 * kBlocks; ++step) {
      panel.template Multiply<T, kMTiles, true>(
          products, a[step >> 1][step & 1], 2 * (first & 1) + step);
    }
    CommitSteps();
  }

  // The compiler keeps the operands where they are until here.
  static __device__ __forceinline__ void PinOperands(Operands& a) {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      PinRegisters(a[b][0]);
      PinRegisters(a[b][1]);
    }
  }

  // The weights of block `block`, which is in group `group` of the stage.
  __device__ __forceinline__ void Decode(const Tile& tile, int block, int group,
                                         uint32_t (&a)[2][4]) const {
    tile.Decode(block, group, shared_, lane_, a);
  }

  // products[b] = block `first` + b of the stage.
  __device__ __forceinline__ void MultiplyBlocks(
      const Stage& stage, int first, Operands& a,
      float (&products)[kBlocks][kSums]) const {
    const ActivationPanel panel = PanelOf(stage.slot, first / 2);
    PinOperands(a);
#pragma unroll
    for (auto& block : products) PinRegisters(block);
    BeginSteps();
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      panel.template Multiply<T, kMTiles, false>(products[b], a[b][0],
                                                 2 * ((first & 1) + b));
    }
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      panel.template Multiply<T, kMTiles, true>(products[b], a[b][1],
                                                2 * ((first & 1) + b) + 1);
    }
    CommitSteps();
  }

 private:
  static constexpr int kPanelBytes = kMTiles * 8 * kPanelRowBytes;

  __device__ __forceinline__ ActivationPanel PanelOf(int slot, int q) const {
    return panel_.At(slot * 2 * kPanelBytes).At(q * kPanelBytes);
  }

  const GemmArguments& args_;
  const char* const shared_;
  const int lane_;
  const LanePlace place_;
  const ActivationPanel panel_;  // of slot 0
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_TILE_MULTIPLIER_CUH_
