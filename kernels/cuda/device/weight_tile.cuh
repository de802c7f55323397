// SPDX-License-Identifier: Apache-2.0
//
// One row tile's part of a stage, as a warp holds it: codes in registers,
// scales, zeros; and how they become A operands.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_WEIGHT_TILE_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_WEIGHT_TILE_CUH_

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device/decode.cuh"
#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/layout/tile_layout.h"

namespace qgemm::cuda {

// The power of two that entries of the table carry where E4M4 scales are
// multiplied in: a sixteenth of a scale is 2^-18 to 2^0.96, so that no weight
// overflows fp16, and one of more than 2^-11 of the codebook is normal.
inline constexpr float kFoldedTableScale = 32768;

// Scales of a tile's rows g and g + 8 in the four blocks of a stage. A layer
// with one scale a row has none here.
template <ScaleKind kScale>
struct TileScales {
  // Scales of both rows, as they are kept.
  using Pair =
      std::conditional_t<kScale == ScaleKind::kFloat32, float2, uint32_t>;
  static constexpr int kPairBytes = sizeof(Pair);
  const char* pairs;

  static __device__ __forceinline__ int LaneOffset(const GemmArguments& args,
                                                   int g) {
    return g * args.groups * kPairBytes;
  }
  __device__ __forceinline__ void Load(const char* lane_scales) {
    pairs = lane_scales;
  }

  __device__ __forceinline__ float2 OfBlock(const GemmArguments& args,
                                            int block) const {
    if constexpr (kScale == ScaleKind::kRow) return make_float2(1, 1);
    const char* from = pairs + (block * args.groups >> 2) * kPairBytes;
    return Value(*reinterpret_cast<const Pair*>(from));
  }

  // Those of all groups in the stage, of which the layer has kGroups: by as few
  // loads as there can be.
  template <int kGroups>
  struct alignas(kGroups* kPairBytes < 16 ? kGroups * kPairBytes : 16) Groups {
    Pair of_group[kGroups];
  };
  template <int kGroups>
  __device__ __forceinline__ Groups<kGroups> LoadGroups() const {
    return *reinterpret_cast<const Groups<kGroups>*>(pairs);
  }

  static __device__ __forceinline__ float2 Value(float2 pair) { return pair; }
  static __device__ __forceinline__ float2 Value(uint32_t pair) {
    if constexpr (kScale == ScaleKind::kFloat16) {
      return __half22float2(reinterpret_cast<const __half2&>(pair));
    }
    return make_float2(__uint_as_float(pair << 16),
                       __uint_as_float(pair & 0xffff0000u));
  }
};

// A code, shifted, is a sixteenth of the scale in fp16. They are kept so: of
// row g, of row g + 8; in a pair, those of blocks 0 and 1, of blocks 2 and 3.
template <>
struct TileScales<ScaleKind::kE4m4> {
  uint32_t low[2];
  uint32_t high[2];

  static __device__ __forceinline__ int LaneOffset(const GemmArguments&,
                                                   int g) {
    return g * 8;
  }
  __device__ __forceinline__ void Load(const char* lane_scales) {
    const uint2 codes = *reinterpret_cast<const uint2*>(lane_scales);
    low[0] = (codes.x & 0x00ff00ffu) << 6;
    low[1] = (codes.y & 0x00ff00ffu) << 6;
    high[0] = codes.x >> 2 & 0x3fc03fc0u;
    high[1] = codes.y >> 2 & 0x3fc03fc0u;
  }
};

// The pair times the first (kFirst) or second of two fp16 scales, twice.
template <bool kFirst>
__device__ __forceinline__ uint32_t ScalePair(uint32_t pair, uint32_t scales,
                                              __half) {
  const __half2 both = reinterpret_cast<const __half2&>(scales);
  const __half2 product =
      __hmul2(reinterpret_cast<const __half2&>(pair),
              kFirst ? __low2half2(both) : __high2half2(both));
  return reinterpret_cast<const uint32_t&>(product);
}
template <bool kFirst>
__device__ __forceinline__ uint32_t ScalePair(uint32_t pair, uint32_t scales,
                                              __nv_bfloat16) {
  const float2 both = __half22float2(reinterpret_cast<const __half2&>(scales));
  const __nv_bfloat162 product =
      __hmul2(reinterpret_cast<const __nv_bfloat162&>(pair),
              __float2bfloat162_rn(kFirst ? both.x : both.y));
  return reinterpret_cast<const uint32_t&>(product);
}

// Offsets of a lane's part of a row tile in slot 0, in bytes from the start of
// shared memory. Worked out once, not with every stage.
struct LanePlace {
  int sixteens;  // codes of 16 bytes a lane
  int eights;    // codes of 8 bytes a lane
  int scales;
  int zeros;
};

// A row tile's 128 columns. Loaded for one stage, decoded a block of 32
// columns at a time.
template <int kCodes, ScaleKind kScale, bool kZeros, typename T>
struct StageTile {
  // E4M4 scales are multiplied into the weights, which a normal fp16 or bf16
  // then holds (kFoldedTableScale); others are left to who adds up.
  static constexpr bool kFolded = kScale == ScaleKind::kE4m4;

  static_assert(kZeros == (kCodes == kNumberCodes),
                "layers with zeros have codes that are numbers");

  HalfTile<kCodes> halves[2];
  TileScales<kScale> scales;
  const char* zeros;
  NumberDecoder<T> numbers;  // with the zeros of the stage's first group

  // `weights` is where slot 0 is in shared memory.
  static __device__ __forceinline__ LanePlace PlaceOf(const GemmArguments& args,
                                                      int weights, int tile,
                                                      int lane) {
    const int codes = weights + tile * args.tile_code_bytes;
    const int scales = weights + args.n_tiles * args.tile_code_bytes;
    const int zeros = scales + args.n_tiles * args.tile_scale_bytes;
    const int g = lane >> 2;
    return {KeepInRegister(codes + lane * 16), KeepInRegister(codes + lane * 8),
            KeepInRegister(scales + tile * args.tile_scale_bytes +
                           TileScales<kScale>::LaneOffset(args, g)),
            KeepInRegister(zeros + 2 * (tile * 8 + g) * args.groups)};
  }

  // `slot` is as far from the start of shared memory as the stage's slot from
  // slot 0.
  __device__ __forceinline__ void Load(const char* slot,
                                       const LanePlace& place) {
    LoadHalves<kCodes>(slot + place.sixteens, slot + place.eights, halves);
    scales.Load(slot + place.scales);
    zeros = slot + place.zeros;
    if constexpr (kZeros) numbers.SetZeros(ZerosOf(0));
  }

  // The two A operands of block `block`, 0 to 3, whose zeros are of group
  // `group` of the stage.
  __device__ __forceinline__ void Decode(int block, int group,
                                         const char* table, int lane,
                                         uint32_t (&a)[2][4]) const {
    if constexpr (kZeros) {
      NumberDecoder<T> of_group;
      of_group.SetZeros(ZerosOf(group));
      DecodeNumbers(of_group, block, a);
    } else {
      DecodeOfOneZero(block, table, lane, a);
    }
  }

  // The same where zeros, if there are any, are of the whole stage.
  __device__ __forceinline__ void DecodeOfOneZero(int block, const char* table,
                                                  int lane,
                                                  uint32_t (&a)[2][4]) const {
    if constexpr (kZeros) {
      DecodeNumbers(numbers, block, a);
    } else {
      LookUp(block, table, lane, a);
      if constexpr (kFolded) MultiplyScales(block, a, a);
    }
  }

  // Decode in two parts, for codes with a table: its entries, and
  // what they become.
  __device__ __forceinline__ void LookUp(int block, const char* table, int lane,
                                         uint32_t (&entries)[2][4]) const {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      DecodeStep<kCodes>(halves[block >> 1], block & 1, s, table, lane,
                         entries[s]);
    }
  }
  // The second part of layers without zeros, whose scales are kFolded.
  __device__ __forceinline__ void MultiplyScales(
      int block, const uint32_t (&entries)[2][4], uint32_t (&a)[2][4]) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t entry = entries[i >> 2][i & 3];
      const uint32_t of_row =
          (i % 2 == 0 ? scales.low : scales.high)[block >> 1];
      a[i >> 2][i & 3] = block % 2 == 0 ? ScalePair<true>(entry, of_row, T())
                                        : ScalePair<false>(entry, of_row, T());
    }
  }

 private:
  // Zeros of the two rows in a group, a byte each.
  __device__ __forceinline__ uint32_t ZerosOf(int group) const {
    return *reinterpret_cast<const uint16_t*>(zeros + 2 * group);
  }

  __device__ __forceinline__ void DecodeNumbers(const NumberDecoder<T>& decoder,
                                                int block,
                                                uint32_t (&a)[2][4]) const {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      decoder.Decode(halves[block >> 1].words[2 * (block & 1) + s], a[s]);
    }
  }
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WEIGHT_TILE_CUH_
