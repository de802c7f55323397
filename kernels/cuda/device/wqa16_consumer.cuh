// SPDX-License-Identifier: Apache-2.0
//
// The warps that multiply: decode a stage's codes, multiply them with its
// activations, scale and add.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_WQA16_CONSUMER_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_WQA16_CONSUMER_CUH_

#include <cstdint>

#include "kernels/cuda/device/decode.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/wqa16_arguments.cuh"

namespace qgemm::cuda {

// Scales of a tile's rows g and g + 8 in the four blocks of a stage.
template <ScaleReader kReader>
struct TileScales {
  uint2 e4m4;
  const char* general;

  __device__ __forceinline__ void Load(const GemmArguments& args,
                                       const char* tile_scales, int g) {
    if constexpr (kReader == ScaleReader::kE4m4) {
      e4m4 = *reinterpret_cast<const uint2*>(tile_scales + g * 8);
    } else {
      const int pair_bytes = args.scale == GeneralScale::kFloat32 ? 8 : 4;
      general = tile_scales + g * args.groups * pair_bytes;
    }
  }

  __device__ __forceinline__ float2 OfBlock(const GemmArguments& args,
                                            int block) const {
    if constexpr (kReader == ScaleReader::kE4m4) {
      // half(code << 6) is a sixteenth of the scale; factor makes it good.
      const uint32_t word = block < 2 ? e4m4.x : e4m4.y;
      const uint32_t pair =
          __byte_perm(word, 0, block % 2 == 0 ? 0x1404 : 0x3424) >> 2;
      return __half22float2(reinterpret_cast<const __half2&>(pair));
    } else {
      if (args.scale == GeneralScale::kRow) return make_float2(1, 1);
      const int j = block * args.groups >> 2;
      if (args.scale == GeneralScale::kFloat32) {
        return *reinterpret_cast<const float2*>(general + j * 8);
      }
      const uint32_t pair = *reinterpret_cast<const uint32_t*>(general + j * 4);
      if (args.scale == GeneralScale::kFloat16) {
        return __half22float2(reinterpret_cast<const __half2&>(pair));
      }
      return make_float2(__uint_as_float(pair << 16),
                         __uint_as_float(pair & 0xffff0000u));
    }
  }
};

template <typename T>
__device__ __forceinline__ uint32_t SubtractPair(uint32_t a, uint32_t b);
template <>
__device__ __forceinline__ uint32_t SubtractPair<__half>(uint32_t a,
                                                         uint32_t b) {
  const __half2 d = __hsub2(reinterpret_cast<const __half2&>(a),
                            reinterpret_cast<const __half2&>(b));
  return reinterpret_cast<const uint32_t&>(d);
}
template <>
__device__ __forceinline__ uint32_t SubtractPair<__nv_bfloat16>(uint32_t a,
                                                                uint32_t b) {
  const __nv_bfloat162 d = __hsub2(reinterpret_cast<const __nv_bfloat162&>(a),
                                   reinterpret_cast<const __nv_bfloat162&>(b));
  return reinterpret_cast<const uint32_t&>(d);
}

// One warp that multiplies: tiles kTilesPerWarp * row_warp and on.
template <int kBits, ScaleReader kReader, bool kZeros, typename T,
          int kTokenTiles>
struct Consumer {
  const GemmArguments& args;
  const SharedPlan& plan;
  const char* shared;
  int lane;
  int first_tile;
  float sums[kTilesPerWarp][kTokenTiles][4];

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int r = 0; r < kTilesPerWarp; ++r) {
#pragma unroll
      for (int token = 0; token < kTokenTiles; ++token) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[r][token][i] = 0;
      }
    }
  }

  // A tile of the warp that does not exist is computed as the last one.
  __device__ __forceinline__ int Tile(int r) const {
    const int tile = first_tile + r;
    return tile < args.row_tiles ? tile : args.row_tiles - 1;
  }

  // Decodes one tile's block of 32 columns into two A operands.
  __device__ __forceinline__ void Decode(const HalfTile<kBits>& half, int b,
                                         const char* zeros, int block,
                                         uint32_t (&a)[2][4]) const {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      DecodeStep<kBits>(half, b, s, shared, lane, a[s]);
    }
    if constexpr (kZeros) {
      const int j = block * args.groups >> 2;
      const uint32_t pair = *reinterpret_cast<const uint16_t*>(
          zeros + 2 * ((lane >> 2) * args.groups + j));
      const uint32_t zero[2] = {
          IntegerBase<T>::kPair | __byte_perm(pair, 0, 0x4040),
          IntegerBase<T>::kPair | __byte_perm(pair, 0, 0x4141)};
#pragma unroll
      for (int s = 0; s < 2; ++s) {
#pragma unroll
        for (int j4 = 0; j4 < 4; ++j4) {
          a[s][j4] = SubtractPair<T>(a[s][j4], zero[j4 & 1]);
        }
      }
    }
  }

  __device__ __forceinline__ void MultiplyBlock(
      const uint32_t (&a)[kTilesPerWarp][2][4],
      const float2 (&scales)[kTilesPerWarp], const char* activations) {
#pragma unroll
    for (int token = 0; token < kTokenTiles; ++token) {
      const uint4 b = *reinterpret_cast<const uint4*>(activations +
                                                      token * 8 * kTokenBytes);
#pragma unroll
      for (int r = 0; r < kTilesPerWarp; ++r) {
        float d[4] = {0, 0, 0, 0};
        Mma16816<T>(d, a[r][0], b.x, b.y);
        Mma16816<T>(d, a[r][1], b.z, b.w);
        float(&sum)[4] = sums[r][token];
        sum[0] = fmaf(d[0], scales[r].x, sum[0]);
        sum[1] = fmaf(d[1], scales[r].x, sum[1]);
        sum[2] = fmaf(d[2], scales[r].y, sum[2]);
        sum[3] = fmaf(d[3], scales[r].y, sum[3]);
      }
    }
  }

  __device__ __forceinline__ void MultiplyStage(int slot) {
    const char* stage = shared + plan.weights + slot * args.stage_bytes;
    const char* scales_at = stage + args.row_tiles * args.tile_code_bytes;
    const char* zeros_at = scales_at + args.row_tiles * args.tile_scale_bytes;
    const char* activations = shared + plan.activations +
                              slot * kTokenTiles * 8 * kTokenBytes +
                              (lane >> 2) * kTokenBytes + (lane & 3) * 16;
    const int g = lane >> 2;
    TileScales<kReader> tile_scales[kTilesPerWarp];
#pragma unroll
    for (int r = 0; r < kTilesPerWarp; ++r) {
      tile_scales[r].Load(args, scales_at + Tile(r) * args.tile_scale_bytes, g);
    }
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      HalfTile<kBits> half[kTilesPerWarp];
#pragma unroll
      for (int r = 0; r < kTilesPerWarp; ++r) {
        half[r] = LoadHalfTile<kBits>(stage + Tile(r) * args.tile_code_bytes, q,
                                      lane);
      }
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        const int block = 2 * q + b;
        uint32_t a[kTilesPerWarp][2][4];
        float2 scales[kTilesPerWarp];
#pragma unroll
        for (int r = 0; r < kTilesPerWarp; ++r) {
          Decode(half[r], b, zeros_at + Tile(r) * 16 * args.groups, block,
                 a[r]);
          scales[r] = tile_scales[r].OfBlock(args, block);
        }
        MultiplyBlock(a, scales, activations + block * 64);
      }
    }
  }

  // Writes the sums to [token][row of the row block].
  __device__ __forceinline__ void StorePartials(float* partials) const {
    const int stride = PartialStride(args.row_tiles);
#pragma unroll
    for (int r = 0; r < kTilesPerWarp; ++r) {
      if (first_tile + r >= args.row_tiles) break;
#pragma unroll
      for (int token = 0; token < kTokenTiles; ++token) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int m = token * 8 + (lane & 3) * 2 + (i & 1);
          const int row = (first_tile + r) * 16 + (lane >> 2) + (i >> 1) * 8;
          partials[m * stride + row] = sums[r][token][i];
        }
      }
    }
  }
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WQA16_CONSUMER_CUH_
