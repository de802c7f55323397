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

// D = A * B of a 16x8 tile over 32 of K, in integers of 8 bits with sign.
__device__ __forceinline__ void Mma16832(int32_t (&d)[4],
                                         const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(0));
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

// Multiplies row tile `tile` of W with kMTiles tiles of rows of A, or kOneRow.
template <int kMTiles, bool kOneRow>
class W4A8Consumer {
 public:
  static constexpr int kSums = kMTiles * 4;

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
      AddStage(
          shared_ + reader.slot() * args_.stage_bytes,
          shared_ + (kOneRow ? stage : reader.slot()) * activations_.stage);
      ReleaseSlot(reader.empty(), lane_);
      reader.Next();
    }
  }

  // Writes the sums to [row of A][row of the row block].
  __device__ __forceinline__ void StoreSums(float* all) {
    const int stride = SumStride(args_.n_tiles);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int m = (i >> 2) * 8 + (lane_ & 3) * 2 + (i & 1);
      const int row = tile_ * 16 + (lane_ >> 2) + (i >> 1 & 1) * 8;
      float& place = all[m * stride + row];
      place = ended_ ? place + sums_[i] : sums_[i];
    }
  }

 private:
  static constexpr uint32_t kOnes = 0x3c003c00;  // in fp16

  __device__ __forceinline__ void AddStage(const char* weights,
                                           const char* activations) {
#pragma unroll
    for (int half = 0; half < 2; ++half) AddHalf(weights, activations, half);
  }

  // 64 columns.
  __device__ __forceinline__ void AddHalf(const char* weights,
                                          const char* activations, int half) {
    const uint4 codes =
        *reinterpret_cast<const uint4*>(weights + codes_ + half * 512);
    uint2 scales = {kOnes, kOnes};  // of rows g and g + 8 in blocks of 32
    if (args_.tile_scale_bytes > 0) {
      scales = *reinterpret_cast<const uint2*>(weights + scales_ + half * 8);
    }
    uint32_t a[2][4];
    DecodeBlock(codes.x, codes.y, a[0]);
    DecodeBlock(codes.z, codes.w, a[1]);
    const float2 d4[2] = {
        __half22float2(reinterpret_cast<const __half2&>(scales.x)),
        __half22float2(reinterpret_cast<const __half2&>(scales.y))};
#pragma unroll
    for (int tile = 0; tile < kMTiles; ++tile) {
      const char* const from = activations + tile * kQ8TileBytes;
      const uint4 b = *reinterpret_cast<const uint4*>(
          from + activations_.codes + half * activations_.half_codes);
      const float4 d8 = *reinterpret_cast<const float4*>(
          from + activations_.scales + half * activations_.half_scales);
      float(&sums)[4] = reinterpret_cast<float(&)[4]>(sums_[tile * 4]);
      AddDots(a[0], b.x, b.y, d4[0], {d8.x, d8.y}, sums);
      AddDots(a[1], b.z, b.w, d4[1], {d8.z, d8.w}, sums);
    }
  }

  static __device__ __forceinline__ void AddDots(const uint32_t (&a)[4],
                                                 uint32_t b0, uint32_t b1,
                                                 float2 d4, float2 d8,
                                                 float (&sums)[4]) {
    int32_t dots[4];
    Mma16832(dots, a, b0, b1);
    sums[0] = fmaf(__int2float_rn(dots[0]), d4.x * d8.x, sums[0]);
    sums[1] = fmaf(__int2float_rn(dots[1]), d4.x * d8.y, sums[1]);
    sums[2] = fmaf(__int2float_rn(dots[2]), d4.y * d8.x, sums[2]);
    sums[3] = fmaf(__int2float_rn(dots[3]), d4.y * d8.y, sums[3]);
  }

  __device__ __forceinline__ void EndChain(float* all) {
    StoreSums(all);
    ended_ = true;
#pragma unroll
    for (float& sum : sums_) sum = 0;
  }

  const GemmArguments& args_;
  char* const shared_;
  const int lane_;
  const W4A8Activations activations_;
  // Offsets of a lane's part of the row tile in slot 0.
  const int codes_;
  const int scales_;
  const int tile_;
  bool ended_ = false;  // a chain's sums are in shared memory
  float sums_[kSums];
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_W4A8_GEMM_MAINLOOP_CUH_
