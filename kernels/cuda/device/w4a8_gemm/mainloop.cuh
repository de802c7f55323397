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

// A code q in the upper half of a byte, its top bit flipped, is 16 (q - 8).
inline constexpr float kW4A8Unit = 16;

// Integers are added to the bits of 1.5 * 2^23, so that the sum, taken as a
// float, is that plus the integer: a subtraction converts. Below 2^22 it is
// exact; a dot is below 16 * 8 * 127 * 32 < 2^19.
inline constexpr float kDotBase = 12582912.0f;
inline constexpr uint32_t kDotBaseBits = 0x4b400000;

// D = A * B + c of a 16x8 tile over 32 of K, in integers of 8 bits with sign;
// every element of D starts from the same c.
__device__ __forceinline__ void Mma16832(uint32_t (&d)[4],
                                         const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1, uint32_t c) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c));
}

// The A operand of 32 columns from a lane's two words of them: bytes 0 and 2 of
// a word are pairs of row g, bytes 1 and 3 of row g + 8.
__device__ __forceinline__ void DecodeBlock(uint32_t first, uint32_t second,
                                            uint32_t (&a)[4]) {
  constexpr uint32_t kUpper = 0xf0f0f0f0;
  constexpr uint32_t kTop = 0x80808080;
  const uint32_t low = __byte_perm(first, second, 0x6420);
  const uint32_t high = __byte_perm(first, second, 0x7531);
  a[0] = (low << 4 & kUpper) ^ kTop;
  a[1] = (high << 4 & kUpper) ^ kTop;
  a[2] = (low & kUpper) ^ kTop;
  a[3] = (high & kUpper) ^ kTop;
}

// 16 rows by 8 dots of 32 columns, as floats.
__device__ __forceinline__ void Dots(const uint32_t (&a)[4], uint32_t b0,
                                     uint32_t b1, float (&dots)[4]) {
  uint32_t sums[4];
  Mma16832(sums, a, b0, b1, kDotBaseBits);
#pragma unroll
  for (int i = 0; i < 4; ++i) dots[i] = __uint_as_float(sums[i]) - kDotBase;
}

template <int kMTiles>
class W4A8Consumer {
 public:
  static constexpr int kSums = kMTiles * 4;

  __device__ __forceinline__ W4A8Consumer(const GemmArguments& args,
                                          const DecodeSmemLayout& smem,
                                          char* shared, int tile)
      : args_(args),
        shared_(shared),
        lane_(KeepInRegister(threadIdx.x % 32)),
        codes_(smem.weights + tile * args.tile_code_bytes + lane_ * 16),
        scales_(smem.weights + args.n_tiles * args.tile_code_bytes +
                tile * args.tile_scale_bytes + (lane_ >> 2) * 16),
        activations_(smem.activations),
        tile_(tile) {
#pragma unroll
    for (float& sum : sums_) sum = 0;
  }

  // Adds the products of those stages up. `all` is where sums go; those of
  // chains that end before the last are added there.
  __device__ __forceinline__ void Run(const Ring& ring, const KSlice& slice,
                                      float* all) {
    RingReader reader(ring, slice);
    int chain = 0;  // stages
    for (int stage = slice.first; stage < slice.stages; stage += slice.step) {
      if (chain == kW4A8ChainStages) {
        EndChain(all);
        chain = 0;
      }
      ++chain;
      reader.Wait();
      AddStage(reader.slot());
      ReleaseSlot(reader.empty(), lane_);
      reader.Next();
    }
  }

  // Writes the sums to [row of A][row of the row block].
  __device__ __forceinline__ void StoreSums(float* all) {
    ForEachSum(all, [&](float& place, float& sum) {
      place = ended_ ? place + sum : sum;
    });
  }

 private:
  static constexpr uint32_t kOnes = 0x3c003c00;  // in fp16

  __device__ __forceinline__ void AddStage(int slot) {
    const char* const weights = shared_ + slot * args_.stage_bytes;
    const char* const activations =
        shared_ + activations_ + slot * (kMTiles * kQ8TileBytes);
    uint4 scales = {kOnes, kOnes, kOnes, kOnes};
    if (args_.tile_scale_bytes > 0) {
      scales = *reinterpret_cast<const uint4*>(weights + scales_);
    }
    AddHalf(weights, activations, 0, scales.x, scales.y);
    AddHalf(weights, activations, 1, scales.z, scales.w);
  }

  // 64 columns; `scale0` and `scale1` are those of rows g and g + 8 in either
  // block of 32.
  __device__ __forceinline__ void AddHalf(const char* weights,
                                          const char* activations, int half,
                                          uint32_t scale0, uint32_t scale1) {
    const uint4 codes =
        *reinterpret_cast<const uint4*>(weights + codes_ + half * 512);
    uint32_t a[2][4];
    DecodeBlock(codes.x, codes.y, a[0]);
    DecodeBlock(codes.z, codes.w, a[1]);
    const float2 d4[2] = {
        __half22float2(reinterpret_cast<const __half2&>(scale0)),
        __half22float2(reinterpret_cast<const __half2&>(scale1))};
#pragma unroll
    for (int tile = 0; tile < kMTiles; ++tile) {
      const char* const from = activations + tile * kQ8TileBytes;
      const uint4 b =
          *reinterpret_cast<const uint4*>(from + half * 512 + lane_ * 16);
      const float4 d8 = *reinterpret_cast<const float4*>(
          from + kQ8CodeBytes + half * 64 + (lane_ & 3) * 16);
      AddDots(a[0], b.x, b.y, d4[0], make_float2(d8.x, d8.y), tile);
      AddDots(a[1], b.z, b.w, d4[1], make_float2(d8.z, d8.w), tile);
    }
  }

  __device__ __forceinline__ void AddDots(const uint32_t (&a)[4], uint32_t b0,
                                          uint32_t b1, float2 d4, float2 d8,
                                          int tile) {
    float dots[4];
    Dots(a, b0, b1, dots);
    float* const sums = &sums_[tile * 4];
    sums[0] = fmaf(dots[0], d4.x * d8.x, sums[0]);
    sums[1] = fmaf(dots[1], d4.x * d8.y, sums[1]);
    sums[2] = fmaf(dots[2], d4.y * d8.x, sums[2]);
    sums[3] = fmaf(dots[3], d4.y * d8.y, sums[3]);
  }

  __device__ __forceinline__ void EndChain(float* all) {
    StoreSums(all);
    ended_ = true;
#pragma unroll
    for (float& sum : sums_) sum = 0;
  }

  template <typename Visit>
  __device__ __forceinline__ void ForEachSum(float* all, const Visit& visit) {
    const int stride = SumStride(args_.n_tiles);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int m = (i >> 2) * 8 + (lane_ & 3) * 2 + (i & 1);
      const int row = tile_ * 16 + (lane_ >> 2) + (i >> 1 & 1) * 8;
      visit(all[m * stride + row], sums_[i]);
    }
  }

  const GemmArguments& args_;
  char* const shared_;
  const int lane_;
  // Offsets of a lane's part of a row tile in slot 0, of the activations there.
  const int codes_;
  const int scales_;
  const int activations_;
  const int tile_;
  bool ended_ = false;  // a chain's sums are in shared memory
  float sums_[kSums];
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_W4A8_GEMM_MAINLOOP_CUH_
