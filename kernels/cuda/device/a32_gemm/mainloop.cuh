// SPDX-License-Identifier: Apache-2.0
//
// A warp's row tile in mode A32 with one or two rows of A (wide.cuh has more):
// products of whole numbers and of the three parts of activations, exact in the
// tensor cores, which add 128 columns of a part, 256 where there are no scales,
// or 32 where scales change within 128; all else is fp32.
//
// A result's arithmetic is the same in both classes: sums of each part, then
// first + (second + third), scaled and added, stage by stage in the order of K.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_MAINLOOP_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_MAINLOOP_CUH_

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/device/a32_gemm/weights.cuh"
#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/pipeline.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/layout/a32_layout.h"
#include "kernels/cuda/plan/a32_plan.h"

namespace qgemm::cuda {

// Products whose parts are columns of one MMA: a lane has the first and second
// part of them, the one at lane ^ kThird the third in its first column.
template <int kThird>
class A32ColumnProducts {
 public:
  static constexpr int kSums = 2;

  // `activations` is the lane's place in the block, or zeros.
  __device__ __forceinline__ void Add(const uint32_t (&a)[2][4],
                                      const char* activations) {
    const uint4 b = *reinterpret_cast<const uint4*>(activations);
    Mma16816<__nv_bfloat16>(columns_, a[0], b.x, b.y);
    Mma16816<__nv_bfloat16>(columns_, a[1], b.z, b.w);
  }

  // The sum of the parts. Called by all lanes.
  __device__ __forceinline__ void Join(float (&products)[kSums]) const {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const float third = __shfl_xor_sync(0xffffffff, columns_[2 * i], kThird);
      products[i] = columns_[2 * i] + (columns_[2 * i + 1] + third);
    }
  }

 private:
  float columns_[4] = {};
};

// Products of two rows of A: an even lane has those of row (lane % 4) / 2.
using A32FewProducts = A32ColumnProducts<1>;

// Products of one row of A and two stages: lane t = lane % 4 has those of stage
// t = 0 or 1. A stage's activations are zeros in the other one's columns, which
// adds nothing there.
class A32PairedProducts : public A32ColumnProducts<2> {
 public:
  // Stage and part of a column; none have the part kA32Parts.
  static __device__ __forceinline__ int StageOf(int column) {
    return column >> 1 & 1;
  }
  static __device__ __forceinline__ int PartOf(int column) {
    if (column < 4) return column & 1;
    return (column & 1) == 0 ? 2 : kA32Parts;
  }
};

// Multiplies row tile `tile` of W with kTileM rows of A. kScale is the kind of
// scales that change within a stage, kRow where none do.
template <int kCodes, ScaleKind kScale, int kTileM>
class A32Consumer {
 public:
  __device__ __forceinline__ A32Consumer(const A32Arguments& args,
                                         const DecodeSmemLayout& smem,
                                         const char* shared, int tile)
      : args_(args),
        shared_(shared),
        lane_(KeepInRegister(threadIdx.x % 32)),
        activations_(KeepInRegister(smem.activations + LanePlace())),
        weights_(args, smem.weights, tile, lane_),
        tile_(tile) {
#pragma unroll
    for (float& sum : sums_) sum = 0;
    if constexpr (kPairs) {
#pragma unroll
      for (int i = 0; i < 2; ++i) pairs_[i] = PairPlaceOf(smem, i);
      odd_ = KeepInRegister(-(lane_ & 1));
    }
  }

  // Adds the products of those stages up: two at a time, which no ring ends
  // between (A32Slots).
  __device__ __forceinline__ void Run(const Ring& ring, const KSlice& slice) {
    const auto place_of = [&](uint32_t barriers, int slots) {
      return Place{barriers + slots * kBarrierBytes,
                   slots * args_.gemm.stage_bytes,
                   slots * A32StageBytes(kTileM)};
    };
    const Place step = place_of(0, slice.step);
    const Place first = place_of(ring.barriers, slice.first);
    const uint32_t end = ring.Full(ring.slots);
    Place place = first;
    uint32_t parity = 0;
    int stage = slice.first;
    for (; stage + slice.step < slice.stages; stage += 2 * slice.step) {
      const Place second = place + step;
      AddStages<2>({LoadStage(place, parity), LoadStage(second, parity)});
      place = second + step;
      if (place.full >= end) {
        place.full = first.full;
        place.weights = first.weights;
        // A row that the block splits is not in the ring.
        if (kTileM != kA32OwnRow) place.activations = first.activations;
        parity ^= 1;
      }
    }
    if (stage < slice.stages) {
      AddStages<1>({LoadStage(place, parity)});
    }
  }

  // Writes the sums to [row of A][row of the row block].
  __device__ __forceinline__ void StoreSums(float* all) const {
    const int row_of_a = lane_ >> 1 & 1;
    if ((lane_ & 1) != 0 || row_of_a >= kTileM) return;
    const int stride = SumStride(args_.gemm.n_tiles);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int row = tile_ * kTileRows + (lane_ >> 2) + i * 8;
      all[row_of_a * stride + row] = sums_[i];
    }
  }

 private:
  static_assert(A32FormOf(kTileM) == A32Form::kFew, "wide.cuh has others");
  using Products = A32FewProducts;
  static constexpr int kSums = Products::kSums;
  // Two stages' blocks are multiplied together, where each has a scale.
  static constexpr bool kPairs = kTileM == kA32OwnRow &&
                                 kCodes != kTernaryCodes &&
                                 kScale != ScaleKind::kRow;

  // Place of a warp's stage: its full barrier, and the distances of its
  // bytes from those of slot 0.
  struct Place {
    uint32_t full;
    int weights;
    int activations;

    __device__ __forceinline__ Place operator+(const Place& step) const {
      return {full + step.full, weights + step.weights,
              activations + step.activations};
    }
  };

  // A stage in shared memory; its codes in registers.
  struct Stage {
    A32Tile<kCodes, kScale> tile;
    const char* activations;
    Place place;
    uint32_t empty;  // the barrier that gives the slot back
  };

  // The lane's place in a stage of a pair, less that of the stage where the
  // mask keeps it: lanes without a column there have zeros.
  struct PairPlace {
    int first;
    int mask;
  };

  // The lane's bytes in the first block. Columns that no row and part has are
  // multiplied for nobody.
  __device__ __forceinline__ int LanePlace() const {
    if (kTileM == kA32FewRows) return lane_ * 16;
    const int part = min(lane_ >> 2 & 3, kA32Parts - 1);
    return A32Offset({0, 0, lane_ & 3, part}, kTileM);
  }

  __device__ __forceinline__ PairPlace PairPlaceOf(const DecodeSmemLayout& smem,
                                                   int stage) const {
    const int column = lane_ >> 2;
    const int part = A32PairedProducts::PartOf(column);
    const bool has =
        A32PairedProducts::StageOf(column) == stage && part < kA32Parts;
    const int first =
        has ? smem.activations + A32Offset({0, 0, lane_ & 3, part}, kTileM)
            : A32ZerosOffset(smem);
    return {KeepInRegister(first), KeepInRegister(has ? -1 : 0)};
  }

  // Returns once the stage is there.
  __device__ __forceinline__ Stage LoadStage(const Place& place,
                                             uint32_t parity) const {
    BarrierWait(place.full, parity);
    return {A32Tile<kCodes, kScale>(args_, shared_ + place.weights, weights_),
            shared_ + activations_ + place.activations, place, place.full + 8};
  }

  template <int kCount>
  __device__ __forceinline__ void AddStages(const Stage (&stages)[kCount]) {
    if constexpr (kCodes == kTernaryCodes) {
      AddChained(stages);
    } else if constexpr (kScale == ScaleKind::kRow) {
      AddWhole(stages);
    } else if constexpr (kPairs && kCount == 2) {
      AddPair(stages);
    } else {
      AddBlocks(stages);
    }
  }

  // Adds stages without scales: the tensor cores add up all of them.
  template <int kCount>
  __device__ __forceinline__ void AddChained(const Stage (&stages)[kCount]) {
    static_assert(kCount <= kA32ChainStages, "sums have so many columns");
    Products products;
#pragma unroll
    for (const Stage& stage : stages) {
#pragma unroll
      for (int block = 0; block < kA32TileBlocks; ++block) {
        AddBlock(stage, block, products);
      }
    }
    Release(stages);
    AddScaled(products, make_float2(1, 1), sums_);
  }

  // Adds stages of a layer whose scales do not change within them.
  template <int kCount>
  __device__ __forceinline__ void AddWhole(const Stage (&stages)[kCount]) {
    Products products[kCount];
#pragma unroll
    for (int block = 0; block < kA32TileBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) AddBlock(stages[i], block, products[i]);
    }
    float2 scales[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) scales[i] = stages[i].tile.Scales();
    Release(stages);
#pragma unroll
    for (int i = 0; i < kCount; ++i) AddScaled(products[i], scales[i], sums_);
  }

  // Adds stages of another layer. A stage's products are added up by themselves
  // before the sums get them: errors then grow with stages, not with blocks.
  template <int kCount>
  __device__ __forceinline__ void AddBlocks(const Stage (&stages)[kCount]) {
    float of_stages[kCount][kSums] = {};
#pragma unroll
    for (int block = 0; block < kA32TileBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        Products products;
        AddBlock(stages[i], block, products);
        AddScaled(products, stages[i].tile.ScalesOf(block), of_stages[i]);
      }
    }
    Release(stages);
#pragma unroll
    for (const auto& of_stage : of_stages) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums_[i] += of_stage[i];
    }
  }

  // AddBlocks of two stages: an even lane adds the first one up, an odd lane
  // the second one.
  __device__ __forceinline__ void AddPair(const Stage (&stages)[2]) {
    const char* activations[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      activations[i] = shared_ + pairs_[i].first +
                       (stages[i].place.activations & pairs_[i].mask);
    }
    const int of_lane =
        stages[0].place.weights +
        (odd_ & (stages[1].place.weights - stages[0].place.weights));
    const TileScales<kScale> scales = {shared_ + weights_.scales + of_lane};
    float of_stage[kSums] = {};
#pragma unroll
    for (int block = 0; block < kA32TileBlocks; ++block) {
      A32PairedProducts products;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        uint32_t a[2][4];
        stages[i].tile.Decode(block, a);
        products.Add(a, activations[i] + A32Offset({0, block, 0, 0}, kTileM));
      }
      AddScaled(products, scales.OfBlock(args_.gemm, block), of_stage);
    }
    Release(stages);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      sums_[i] += of_stage[i];
      sums_[i] += __shfl_xor_sync(0xffffffff, of_stage[i], 1);
    }
  }

  // products += block `block` of the stage.
  static __device__ __forceinline__ void AddBlock(const Stage& stage, int block,
                                                  Products& products) {
    uint32_t a[2][4];
    stage.tile.Decode(block, a);
    products.Add(a, stage.activations + A32Offset({0, block, 0, 0}, kTileM));
  }

  // Gives the slots back.
  template <int kCount>
  __device__ __forceinline__ void Release(const Stage (&stages)[kCount]) const {
    __syncwarp();
    if (lane_ >= kReleasingLanes) return;
#pragma unroll
    for (const Stage& stage : stages) BarrierArrive(stage.empty);
  }

  // sums += products, scaled by row: `scales` are those of a lane's two.
  template <typename AnyProducts>
  static __device__ __forceinline__ void AddScaled(const AnyProducts& products,
                                                   float2 scales,
                                                   float (&sums)[kSums]) {
    float joined[kSums];
    products.Join(joined);
    sums[0] = fmaf(joined[0], scales.x, sums[0]);
    sums[1] = fmaf(joined[1], scales.y, sums[1]);
  }

  const A32Arguments& args_;
  const char* const shared_;
  const int lane_;
  const int activations_;  // the lane's place in slot 0
  const A32WeightPlace weights_;
  const int tile_;
  PairPlace pairs_[2];  // kPairs only
  int odd_;             // all bits of odd lanes; kPairs only
  float sums_[kSums];
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_MAINLOOP_CUH_
