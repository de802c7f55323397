// SPDX-License-Identifier: Apache-2.0
//
// A warp's row tile in mode A32 with up to 8 rows of A (wide.cuh has more):
// products of whole numbers and of the three parts of activations, exact in the
// tensor cores, which add 128 columns of a part, or 32 where scales change
// within them; all else is fp32.
//
// A result's arithmetic is the same in both classes: sums of each part, then
// first + (second + third), scaled and added, stage by stage in the order of K.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_MAINLOOP_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_MAINLOOP_CUH_

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device/a32_gemm/weights.cuh"
#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/pipeline.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/layout/a32_layout.h"

namespace qgemm::cuda {

// d += the 16x8 product of a block's 32 columns.
__device__ __forceinline__ void AddA32Block(const uint32_t (&a)[2][4],
                                            const char* activations,
                                            float (&d)[4]) {
  const uint4 b = *reinterpret_cast<const uint4*>(activations);
  Mma16816<__nv_bfloat16>(d, a[0], b.x, b.y);
  Mma16816<__nv_bfloat16>(d, a[1], b.z, b.w);
}

// Products of a tile of 8 rows of A: a lane has rows 2 (lane % 4) and one more
// of A with rows g and g + 8 of W.
class A32TileProducts {
 public:
  static constexpr int kSums = 4;

  // `activations` is the lane's place in the tile.
  __device__ __forceinline__ void Add(int block, const uint32_t (&a)[2][4],
                                      const char* activations) {
#pragma unroll
    for (int part = 0; part < kA32Parts; ++part) {
      AddA32Block(a, activations + (block * kA32Parts + part) * kA32PieceBytes,
                  parts_[part]);
    }
  }

  // The sum of the parts.
  __device__ __forceinline__ void Join(float (&products)[kSums]) const {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      products[i] = parts_[0][i] + (parts_[1][i] + parts_[2][i]);
    }
  }

  // Row of A and row of the row tile of a lane's sum i; whether it has any.
  static __device__ __forceinline__ int RowOfA(int lane, int i) {
    return (lane & 3) * 2 + (i & 1);
  }
  static __device__ __forceinline__ int RowOfTile(int lane, int i) {
    return (lane >> 2) + (i >> 1) * 8;
  }
  static __device__ __forceinline__ bool HasSums(int /*lane*/) { return true; }

 private:
  float parts_[kA32Parts][4] = {};
};

// Products of two rows of A, whose parts are columns of one MMA: an even lane
// has those of row (lane % 4) / 2, but for the third part, which the lane
// behind it has.
class A32FewProducts {
 public:
  static constexpr int kSums = 2;

  __device__ __forceinline__ void Add(int block, const uint32_t (&a)[2][4],
                                      const char* activations) {
    AddA32Block(a, activations + block * kA32PieceBytes, columns_);
  }

  // Called by all lanes.
  __device__ __forceinline__ void Join(float (&products)[kSums]) const {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const float third = __shfl_xor_sync(0xffffffff, columns_[2 * i], 1);
      products[i] = columns_[2 * i] + (columns_[2 * i + 1] + third);
    }
  }

  static __device__ __forceinline__ int RowOfA(int lane, int /*i*/) {
    return lane >> 1 & 1;
  }
  static __device__ __forceinline__ int RowOfTile(int lane, int i) {
    return (lane >> 2) + i * 8;
  }
  static __device__ __forceinline__ bool HasSums(int lane) {
    return (lane & 1) == 0;
  }

 private:
  float columns_[4] = {};
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
        activations_(KeepInRegister(smem.activations + lane_ * 16)),
        weights_(args, smem.weights, tile, lane_),
        tile_(tile) {
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
    if (!Products::HasSums(lane_)) return;
    const int stride = SumStride(args_.gemm.n_tiles);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int row = tile_ * kTileRows + Products::RowOfTile(lane_, i);
      all[Products::RowOfA(lane_, i) * stride + row] = sums_[i];
    }
  }

 private:
  static_assert(A32FormOf(kTileM) != A32Form::kPanels, "wide.cuh has those");
  using Products = std::conditional_t<A32FormOf(kTileM) == A32Form::kFew,
                                      A32FewProducts, A32TileProducts>;
  static constexpr int kSums = Products::kSums;

  template <bool kZeros>
  __device__ __forceinline__ void RunStages(const Ring& ring,
                                            const KSlice& slice) {
    RingReader reader(ring, slice);
    for (int stage = slice.first; stage < slice.stages; stage += slice.step) {
      reader.Wait();
      const A32Tile<kCodes, kZeros> tile(
          args_, shared_ + reader.slot() * args_.gemm.stage_bytes, weights_);
      const char* const activations =
          shared_ + activations_ + reader.slot() * A32StageBytes(kTileM);
      if constexpr (kScale == ScaleKind::kRow) {
        AddStage(tile, activations);
      } else {
        AddBlocks(tile, activations);
      }
      ReleaseSlot(reader.empty(), lane_);
      reader.Next();
    }
  }

  // Adds a stage of a layer whose scales do not change within it.
  template <typename Tile>
  __device__ __forceinline__ void AddStage(const Tile& tile,
                                           const char* activations) {
    Products products;
#pragma unroll
    for (int block = 0; block < kA32TileBlocks; ++block) {
      uint32_t a[2][4];
      tile.Decode(block, a);
      products.Add(block, a, activations);
    }
    AddScaled(products, tile.Scales(), sums_);
  }

  // Adds a stage of another layer. Its products are added up by themselves
  // before the sums get them: errors then grow with stages, not with blocks.
  template <typename Tile>
  __device__ __forceinline__ void AddBlocks(const Tile& tile,
                                            const char* activations) {
    float of_stage[kSums] = {};
#pragma unroll
    for (int block = 0; block < kA32TileBlocks; ++block) {
      uint32_t a[2][4];
      tile.Decode(block, a);
      const float2 scales = tile.template ScalesOf<kScale>(block);
      Products products;
      products.Add(block, a, activations);
      AddScaled(products, scales, of_stage);
    }
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums_[i] += of_stage[i];
  }

  // sums += products, scaled by row: `scales` are those of a lane's two.
  static __device__ __forceinline__ void AddScaled(const Products& products,
                                                   float2 scales,
                                                   float (&sums)[kSums]) {
    float joined[kSums];
    products.Join(joined);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const float scale = i < kSums / 2 ? scales.x : scales.y;
      sums[i] = fmaf(joined[i], scale, sums[i]);
    }
  }

  const A32Arguments& args_;
  const char* const shared_;
  const int lane_;
  const int activations_;  // the lane's place in slot 0
  const A32WeightPlace weights_;
  const int tile_;
  float sums_[kSums];
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_MAINLOOP_CUH_
