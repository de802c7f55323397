// SPDX-License-Identifier: Apache-2.0
//
// A warp's row tile in mode A8: dots of 32 columns in integers by mma.sync,
// scaled and added in fp32, block by block in the order of K.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_W4A8_GEMM_MAINLOOP_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_W4A8_GEMM_MAINLOOP_CUH_

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/pipeline.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/layout/q8_layout.h"
#include "kernels/cuda/plan/w4a8_plan.h"

namespace qgemm::cuda {

// D = A * B of a 16x8 tile over 32 of K, in integers of 8 bits with sign, plus
// kDotBias.
__device__ __forceinline__ void Mma16832(float (&d)[4], const uint32_t (&a)[4],
                                         uint32_t b0, uint32_t b1) {
  int32_t biased[4];
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
      : "=r"(biased[0]), "=r"(biased[1]), "=r"(biased[2]), "=r"(biased[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1),
        "r"(kDotBias));
#pragma unroll
  for (int i = 0; i < 4; ++i) d[i] = __int_as_float(biased[i]);
}

// The A operand of 32 columns from a lane's two words of them: bytes 0 and 2 of
// a word are pairs of row g, bytes 1 and 3 of row g + 8.
__device__ __forceinline__ void DecodeBlock(uint32_t first, uint32_t second,
                                            uint32_t (&a)[4]) {
  constexpr uint32_t kUpper = 0xf0f0f0f0;
  constexpr uint32_t kTop = 0x80808080;
  const uint32_t low = __byte_perm(first, second, 0x6420);
  const uint32_t high = __byte_perm(first, second, 0x7531);
  // (x & kUpper) ^ kTop in one instruction, which the compiler does not find.
  const auto sign = [](uint32_t x) {
    uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;"
        : "=r"(result)
        : "r"(x), "r"(kUpper), "r"(kTop));
    return result;
  };
  a[0] = sign(low << 4);
  a[1] = sign(high << 4);
  a[2] = sign(low);
  a[3] = sign(high);
}

// Places in shared memory of a lane's parts of the first stage's activations,
// in bytes, and the distances to the other half of a tile and the next stage.
struct W4A8Activations {
  int codes;   // of the lane's row of A
  int scales;  // of the lane's two columns of results
  int half_codes;
  int half_scales;
  int stage;

  // Stages hold so many tiles of 8 rows.
  static __device__ __forceinline__ W4A8Activations OfTiles(int first,
                                                            int tiles,
                                                            int lane) {
    return {first + lane * 16, first + kQ8CodeBytes + (lane & 3) * 16, 512, 64,
            tiles * kQ8TileBytes};
  }
  // Stages hold one row; lanes of other rows multiply it for nobody.
  static __device__ __forceinline__ W4A8Activations OfRow(int first, int lane) {
    return {first + (lane & 3) * 16, first + kTileColumns, 64, 16,
            Q8TileBytes(1)};
  }
};

// Multiplies kRowTiles row tiles of W, from `tile` on, with kMTiles tiles of
// rows of A, or kOneRow.
template <int kMTiles, int kRowTiles, bool kOneRow>
class W4A8Consumer {
 public:
  static constexpr int kSums = kMTiles * 4;  // of a row tile

  __device__ __forceinline__ W4A8Consumer(const GemmArguments& args,
                                          const DecodeSmemLayout& smem,
                                          char* shared, int tile)
      : args_(args),
        shared_(shared),
        lane_(KeepInRegister(threadIdx.x % 32)),
        activations_(kOneRow ? W4A8Activations::OfRow(smem.activations, lane_)
                             : W4A8Activations::OfTiles(smem.activations,
                                                        kMTiles, lane_)),
        codes_(smem.weights + tile * args.tile_code_bytes + lane_ * 16),
        scales_(smem.weights + args.n_tiles * args.tile_code_bytes +
                tile * args.tile_scale_bytes + (lane_ >> 2) * 16),
        tile_(tile) {
    ClearSums();
  }

  // Adds the products of those stages up. `all` is where sums go; those of
  // chains that end before the last are added there.
  __device__ __forceinline__ void Run(const Ring& ring, const KSlice& slice,
                                      float* all) {
    RingReader reader(ring, slice);
    int stage = slice.first;
    while (true) {
      const int end = min(stage + ChainColumnTiles(slice), slice.stages);
      for (; stage < end; stage += slice.step) {
        reader.Wait();
        AddStage(
            shared_ + reader.slot() * args_.stage_bytes,
            shared_ + (kOneRow ? stage : reader.slot()) * activations_.stage);
        ReleaseSlot(reader.empty(), lane_);
        reader.Next();
      }
      if (stage >= slice.stages) break;
      StoreSums(all, stage > slice.first + ChainColumnTiles(slice));
      ClearSums();
    }
  }

  // Writes the sums of the last chain to [row of A][row of the row block].
  __device__ __forceinline__ void StoreSums(const KSlice& slice, float* all) {
    StoreSums(all, slice.first + ChainColumnTiles(slice) < slice.stages);
  }

 private:
  static constexpr uint32_t kOnes = 0x3c003c00;  // in fp16
  // Bytes of a row tile's parts.
  static constexpr int kTileCodeBytes = kTileRows * kTileColumns / 2;
  static constexpr int kTileScaleBytes = kTileRows * kQ8TileBlocks * 2;

  __device__ __forceinline__ void ClearSums() {
#pragma unroll
    for (auto& sums : sums_) {
#pragma unroll
      for (float& sum : sums) sum = 0;
    }
  }

  static __device__ __forceinline__ int ChainColumnTiles(const KSlice& slice) {
    return kW4A8ChainStages * slice.step;
  }

  // `adds`: to those of chains that ended before.
  __device__ __forceinline__ void StoreSums(float* all, bool adds) {
    const int stride = SumStride(args_.n_tiles);
    // Sums of 64 rows leave stages few registers: nothing is kept for this.
    const int lane = kMTiles == 8 ? ReadLane() : lane_;
#pragma unroll
    for (int j = 0; j < kRowTiles; ++j) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        const int m = (i >> 2) * 8 + (lane & 3) * 2 + (i & 1);
        const int row = (tile_ + j) * 16 + (lane >> 2) + (i >> 1 & 1) * 8;
        float& place = all[m * stride + row];
        place = adds ? place + sums_[j][i] : sums_[j][i];
      }
    }
  }

  // Scales of rows g and g + 8 in a block, and what takes the bias of dots
  // off with them.
  struct RowScales {
    float2 d4;
    float2 off;
  };

  static __device__ __forceinline__ RowScales ScalesOf(uint32_t pair) {
    const float2 d4 = __half22float2(reinterpret_cast<const __half2&>(pair));
    return {d4, {d4.x * -kDotBiasValue, d4.y * -kDotBiasValue}};
  }

  __device__ __forceinline__ void AddStage(const char* weights,
                                           const char* activations) {
    uint4 pairs[kRowTiles];
#pragma unroll
    for (int j = 0; j < kRowTiles; ++j) {
      pairs[j] = {kOnes, kOnes, kOnes, kOnes};
      if (args_.tile_scale_bytes > 0) {
        pairs[j] = *reinterpret_cast<const uint4*>(weights + scales_ +
                                                   j * kTileScaleBytes);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      AddHalf(weights, activations, half, pairs);
    }
  }

  // 64 columns.
  __device__ __forceinline__ void AddHalf(const char* weights,
                                          const char* activations, int half,
                                          const uint4 (&pairs)[kRowTiles]) {
    uint32_t a[kRowTiles][2][4];
    RowScales scales[kRowTiles][2];
#pragma unroll
    for (int j = 0; j < kRowTiles; ++j) {
      const uint4 codes = *reinterpret_cast<const uint4*>(
          weights + codes_ + j * kTileCodeBytes + half * 512);
      DecodeBlock(codes.x, codes.y, a[j][0]);
      DecodeBlock(codes.z, codes.w, a[j][1]);
      scales[j][0] = ScalesOf(half == 0 ? pairs[j].x : pairs[j].z);
      scales[j][1] = ScalesOf(half == 0 ? pairs[j].y : pairs[j].w);
    }
#pragma unroll
    for (int tile = 0; tile < kMTiles; ++tile) {
      const char* const from = activations + tile * kQ8TileBytes;
      const uint4 b = *reinterpret_cast<const uint4*>(
          from + activations_.codes + half * activations_.half_codes);
      const float4 d8 = *reinterpret_cast<const float4*>(
          from + activations_.scales + half * activations_.half_scales);
#pragma unroll
      for (int j = 0; j < kRowTiles; ++j) {
        float(&sums)[4] = reinterpret_cast<float(&)[4]>(sums_[j][tile * 4]);
        AddDots(a[j][0], b.x, b.y, scales[j][0], {d8.x, d8.y}, sums);
        AddDots(a[j][1], b.z, b.w, scales[j][1], {d8.z, d8.w}, sums);
      }
    }
  }

  // sums += (dot * d4) * d8, rounded twice: d4 has 11 bits, so that its product
  // with the bias is exact and goes with the first multiplication.
  static __device__ __forceinline__ void AddDots(const uint32_t (&a)[4],
                                                 uint32_t b0, uint32_t b1,
                                                 const RowScales& scales,
                                                 float2 d8, float (&sums)[4]) {
    float dots[4];
    Mma16832(dots, a, b0, b1);
    const float upper[2] = {fmaf(dots[0], scales.d4.x, scales.off.x),
                            fmaf(dots[1], scales.d4.x, scales.off.x)};
    const float lower[2] = {fmaf(dots[2], scales.d4.y, scales.off.y),
                            fmaf(dots[3], scales.d4.y, scales.off.y)};
    sums[0] = fmaf(upper[0], d8.x, sums[0]);
    sums[1] = fmaf(upper[1], d8.y, sums[1]);
    sums[2] = fmaf(lower[0], d8.x, sums[2]);
    sums[3] = fmaf(lower[1], d8.y, sums[3]);
  }

  const GemmArguments& args_;
  char* const shared_;
  const int lane_;
  const W4A8Activations activations_;
  // Offsets of a lane's part of the row tile in slot 0.
  const int codes_;
  const int scales_;
  const int tile_;
  float sums_[kRowTiles][kSums];
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_W4A8_GEMM_MAINLOOP_CUH_
