// SPDX-License-Identifier: Apache-2.0
//
// From codes to MMA operands by tables in shared memory. An entry holds the
// two (2 bits: four) values of the codes that index it, once a lane, so that
// no data makes a bank conflict; an address is one byte permutation, because
// rows are 256 bytes apart and the index is a byte of the weights. Two kinds of
// codes need no table: ternary ones, shifted, are sign and exponent, and
// numbers are the low bits of a float.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_DECODE_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_DECODE_CUH_

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/layout/tile_layout.h"

namespace qgemm::cuda {

// Two values in one register.
__device__ __forceinline__ uint32_t PackPair(float low, float high, __half) {
  const __half2 pair = __floats2half2_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}
__device__ __forceinline__ uint32_t PackPair(float low, float high,
                                             __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}

// The bits of a float, twice, whose last place is 1: 1024 in fp16, 128 in bf16.
// A whole number in the low bits is added to it by an OR, and the difference of
// two such sums is exact.
template <typename T>
inline constexpr uint32_t kIntegerBase = 0x64006400;
template <>
inline constexpr uint32_t kIntegerBase<__nv_bfloat16> = 0x43004300;

// (word & mask) | base in one instruction.
__device__ __forceinline__ uint32_t AndOr(uint32_t word, uint32_t mask,
                                          uint32_t base) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;"
      : "=r"(result)
      : "r"(word), "r"(mask), "r"(base));
  return result;
}

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

// From codes that are numbers (kNumberCodes) to their differences from the
// zeros of a tile's rows g and g + 8. Pairs of row g + 8 stand four bits above
// those of row g: fp16 has ten bits below the base, so that a number may stay
// there and counts sixteenfold.
template <typename T>
struct NumberDecoder {
  uint32_t zeros[2];  // what a number with its base is taken from

  // `pair` has the zeros of both rows, a byte each.
  __device__ __forceinline__ void SetZeros(uint32_t pair) {
    zeros[0] = kIntegerBase<T> | __byte_perm(pair, 0, 0x4040);
    if constexpr (kKeepsPlace) {
      zeros[1] = kMinusSixteenthBase + (pair >> 8) * 0x00100010u;
    } else {
      zeros[1] = kIntegerBase<T> | __byte_perm(pair, 0, 0x4141);
    }
  }

  // The A operand of an MMA step from a lane's word of it.
  __device__ __forceinline__ void Decode(uint32_t word,
                                         uint32_t (&a)[4]) const {
    constexpr uint32_t kLow = 0x000f000f;
#pragma unroll
    for (int r2 = 0; r2 < 2; ++r2) {
      const uint32_t pairs = word >> 8 * r2;
      a[2 * r2] =
          SubtractPair<T>(AndOr(pairs, kLow, kIntegerBase<T>), zeros[0]);
      uint32_t& upper = a[2 * r2 + 1];
      if constexpr (kKeepsPlace) {
        upper = TakeSixteenth(AndOr(pairs, kLow << 4, kIntegerBase<T>));
      } else {
        upper =
            SubtractPair<T>(AndOr(pairs >> 4, kLow, kIntegerBase<T>), zeros[1]);
      }
    }
  }

 private:
  static constexpr bool kKeepsPlace = std::is_same_v<T, __half>;
  static constexpr uint32_t kMinusSixteenthBase = 0xd400d400;  // -64, twice
  static constexpr uint32_t kSixteenth = 0x2c002c00;

  // sixteenfold / 16 + zeros[1], exactly.
  __device__ __forceinline__ uint32_t
  TakeSixteenth(uint32_t sixteenfold) const {
    const uint32_t sixteenth = kSixteenth;
    const __half2 result =
        __hfma2(reinterpret_cast<const __half2&>(sixteenfold),
                reinterpret_cast<const __half2&>(sixteenth),
                reinterpret_cast<const __half2&>(zeros[1]));
    return reinterpret_cast<const uint32_t&>(result);
  }
};

// The operand of a ternary 1; in fp16 and bf16 alike.
inline constexpr float kTernaryUnit = 2;

// Fills the table; all `threads` of whole warps take part. The codebook is read
// once, a value a lane.
//   codebook  [2^bits] fp32 in global memory
//   scale: an entry is codebook * scale.
template <int kCodes, typename T>
__device__ __forceinline__ void FillTable(const float* codebook, float scale,
                                          int thread, int threads,
                                          char* shared) {
  constexpr int kMask = (1 << kCodes) - 1;
  const float of_lane = __ldg(codebook + (thread & kMask)) * scale;
  const auto value = [of_lane](int code) {
    return __shfl_sync(0xffffffff, of_lane, code & kMask);
  };
  constexpr int kRows = kCodes == 5 ? 1024 : 256;
  constexpr int kVectors = kCodes == 2 ? 16 : 8;  // of 16 bytes a row
  for (int i = thread; i < kRows * kVectors; i += threads) {
    const int row = i / kVectors;
    uint4 entry;
    int place = row * 256;
    if constexpr (kCodes == 2) {
      entry.x = PackPair(value(row), value(row >> 2), T());
      entry.y = PackPair(value(row >> 4), value(row >> 6), T());
      entry.z = entry.x;
      entry.w = entry.y;
    } else {
      int low = row & kMask;
      int high = row >> kCodes;
      if constexpr (kCodes == 5) {
        const int byte = row & 255;
        low = (byte & 15) | (row >> 8 & 1) << 4;
        high = byte >> 4 | (row >> 9) << 4;
        place = byte * 256 + (row >> 8 & 1) * 128 + (row >> 9) * 65536;
      }
      const uint32_t pair = PackPair(value(low), value(high), T());
      entry = make_uint4(pair, pair, pair, pair);
    }
    *reinterpret_cast<uint4*>(shared + place + i % kVectors * 16) = entry;
  }
}

// Codes of one row tile and 64 columns, as a lane holds them.
template <int kCodes>
struct HalfTile {
  static constexpr int kWords = kCodes == 5 ? 5 : kCodes <= 2 ? 2 : 4;
  uint32_t words[kWords];
};

// Bits of a where the mask has ones, of b elsewhere. Spelled out, for else the
// compiler masks twice where masks are nested.
__device__ __forceinline__ uint32_t PickBits(uint32_t mask, uint32_t a,
                                             uint32_t b) {
  uint32_t picked;
  asm("lop3.b32 %0, %1, %2, %3, 0xe4;"
      : "=r"(picked)
      : "r"(a), "r"(b), "r"(mask));
  return picked;
}

// The top two bits of each byte of a, b and c as the low six of that byte, from
// the lowest; above them may be anything.
__device__ __forceinline__ uint32_t TopCrumbs(uint32_t a, uint32_t b,
                                              uint32_t c) {
  return PickBits(0x0f0f0f0fu, PickBits(0x03030303u, a >> 6, b >> 4), c >> 2);
}

// Loads a tile's two halves. Where the lane's codes start: those by 16 bytes a
// lane, and those by 8 bytes, were they at the tile's beginning.
template <int kCodes>
__device__ __forceinline__ void LoadHalves(const char* sixteens,
                                           const char* eights,
                                           HalfTile<kCodes> (&halves)[2]) {
  uint32_t(&first)[HalfTile<kCodes>::kWords] = halves[0].words;
  uint32_t(&second)[HalfTile<kCodes>::kWords] = halves[1].words;
  const uint4 v = *reinterpret_cast<const uint4*>(sixteens);
  first[0] = v.x;
  first[1] = v.y;
  if constexpr (kCodes <= 2) {
    second[0] = v.z;
    second[1] = v.w;
  } else if constexpr (kCodes == 3) {
    const uint2 more = *reinterpret_cast<const uint2*>(eights + 512);
    first[2] = v.z;
    first[3] = TopCrumbs(v.x, v.y, v.z);
    second[0] = v.w;
    second[1] = more.x;
    second[2] = more.y;
    second[3] = TopCrumbs(v.w, more.x, more.y);
  } else {
    const uint4 w = *reinterpret_cast<const uint4*>(sixteens + 512);
    first[2] = v.z;
    first[3] = v.w;
    second[0] = w.x;
    second[1] = w.y;
    second[2] = w.z;
    second[3] = w.w;
  }
  if constexpr (kCodes == 5) {
    const uint2 fifth = *reinterpret_cast<const uint2*>(eights + 1024);
    first[4] = fifth.x;
    second[4] = fifth.y;
  }
}

// The A operand of MMA step s of block b (32 columns).
template <int kCodes>
__device__ __forceinline__ void DecodeStep(const HalfTile<kCodes>& half, int b,
                                           int s, const char* table, int lane,
                                           uint32_t (&a)[4]) {
  if constexpr (kCodes == kTernaryCodes) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      a[j] = half.words[b] << (14 - 8 * s - 2 * j) & 0xc000c000u;
    }
  } else if constexpr (kCodes == 2) {
#pragma unroll
    for (int r2 = 0; r2 < 2; ++r2) {
      const uint32_t place =
          __byte_perm(half.words[b], lane * 8, 0x7604 | (2 * s + r2) << 4);
      const uint2 quad = *reinterpret_cast<const uint2*>(table + place);
      a[2 * r2] = quad.x;
      a[2 * r2 + 1] = quad.y;
    }
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      uint32_t place =
          __byte_perm(half.words[2 * b + s], lane * 4, 0x7604 | j << 4);
      if constexpr (kCodes == 5) {
        const int p = 8 * b + 4 * s + j;
        place |= __funnelshift_r(half.words[4], half.words[4], 18 * p % 32) &
                 0x10080u;
      }
      a[j] = *reinterpret_cast<const uint32_t*>(table + place);
    }
  }
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_DECODE_CUH_
