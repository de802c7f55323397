// SPDX-License-Identifier: Apache-2.0
//
// Codes of a tile, dealt out for storing rows. A tile gives a lane pairs of
// columns, 8 apart, which is what an MMA wants; a store wants neighbours. The
// four lanes of a row exchange codes, which are fewer bytes than weights, until
// each has the eight columns from 8 t on of every 32.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_OCTET_CODES_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_OCTET_CODES_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "base/host_device.h"
#include "kernels/cuda/layout/tile_address.h"

namespace qgemm::cuda {

// The kind of codes that those of a tile are put in the order of.
QGEMM_HOST_DEVICE constexpr int OctetKind(int codes) {
  return codes == kNumberCodes ? 4 : codes;
}

// A lane's codes of a tile: word i of half q is words[q][i]
// (tuning/tile_layout.h). Of 3 bits, words[q][3] holds pairs 12 to 15. Ternary
// codes stand as those of 2 bits do.
template <int kCodes>
struct TileWords {
  uint32_t words[2][kCodes < 4 ? 4 : kCodes];
};

__device__ __forceinline__ uint4 LoadOnce16(const uint8_t* from) {
  return __ldcs(reinterpret_cast<const uint4*>(from));
}
__device__ __forceinline__ uint2 LoadOnce8(const uint8_t* from) {
  return __ldcs(reinterpret_cast<const uint2*>(from));
}

// The halves of a word hold the codes h = 0 and 1 of eight pairs; puts the two
// of a pair side by side, as layers of 2 bits have them.
__device__ __forceinline__ uint32_t InterleaveCrumbs(uint32_t word) {
  word = __byte_perm(word, 0, 0x3120);
  word = (word & 0xf00ff00fu) | (word >> 4 & 0x00f000f0u) |
         (word << 4 & 0x0f000f00u);
  return (word & 0xc3c3c3c3u) | (word >> 2 & 0x0c0c0c0cu) |
         (word << 2 & 0x30303030u);
}

// The halves of a word hold the codes h = 0 and 1 of four pairs; puts the two
// of a pair side by side, as layers of 4 bits have them.
__device__ __forceinline__ uint32_t InterleaveNibbles(uint32_t word) {
  const uint32_t first = __byte_perm(word, 0, 0x1100);
  const uint32_t second = __byte_perm(word, 0, 0x3322);
  return (first & 0x000f000fu) | (first >> 4 & 0x0f000f00u) |
         (second << 4 & 0x00f000f0u) | (second & 0xf000f000u);
}

// `codes` is the tile's in global memory. Read once: the cache is for what is
// written.
template <int kCodes>
__device__ __forceinline__ TileWords<OctetKind(kCodes)> LoadTileWords(
    const uint8_t* codes, int lane) {
  TileWords<OctetKind(kCodes)> tile;
  const uint4 v = LoadOnce16(codes + lane * 16);
  if constexpr (kCodes <= 2) {
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      tile.words[i >> 1][i & 1] =
          kCodes == kTernaryCodes ? InterleaveCrumbs(words[i]) : words[i];
    }
  } else if constexpr (kCodes == 3) {
    const uint2 u = LoadOnce8(codes + 512 + lane * 8);
    const uint32_t words[2][3] = {{v.x, v.y, v.z}, {v.w, u.x, u.y}};
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      const auto& w = words[q];
      tile.words[q][0] = w[0];
      tile.words[q][1] = w[1];
      tile.words[q][2] = w[2];
      tile.words[q][3] = (w[0] >> 6 & 0x03030303u) | (w[1] >> 4 & 0x0c0c0c0cu) |
                         (w[2] >> 2 & 0x30303030u);
    }
  } else {
    const uint4 u = LoadOnce16(codes + 512 + lane * 16);
    const uint4 halves[2] = {v, u};
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      tile.words[q][0] = halves[q].x;
      tile.words[q][1] = halves[q].y;
      tile.words[q][2] = halves[q].z;
      tile.words[q][3] = halves[q].w;
      if constexpr (kCodes == kNumberCodes) {
#pragma unroll
        for (uint32_t& word : tile.words[q]) word = InterleaveNibbles(word);
      }
    }
    if constexpr (kCodes == 5) {
      const uint2 fifth = LoadOnce8(codes + 1024 + lane * 8);
      tile.words[0][4] = fifth.x;
      tile.words[1][4] = fifth.y;
    }
  }
  return tile;
}

__device__ __forceinline__ void SwapIf(bool swaps, uint32_t& a, uint32_t& b) {
  const uint32_t first = swaps ? b : a;
  b = swaps ? a : b;
  a = first;
}

// words[r] goes to lane t ^ r of the quad; words[s] becomes what lane s sent.
__device__ __forceinline__ void ExchangeInQuad(int t, uint32_t (&words)[4]) {
#pragma unroll
  for (int r = 1; r < 4; ++r) {
    words[r] = __shfl_xor_sync(0xffffffff, words[r], r);
  }
  const bool odd = (t & 1) != 0;
  const bool upper = (t & 2) != 0;
  SwapIf(odd, words[0], words[1]);
  SwapIf(odd, words[2], words[3]);
  SwapIf(upper, words[0], words[2]);
  SwapIf(upper, words[1], words[3]);
}

// The lane's runs of eight columns. In half q, run i = 2 b + hi is row
// g + 8 hi, columns 64 q + 32 b + 8 t on; its columns 2 s and 2 s + 1 come
// from lane s of the quad.
template <int kCodes>
class OctetCodes {
 public:
  // All lanes of the warp take part.
  __device__ __forceinline__ OctetCodes(const TileWords<kCodes>& tile, int t) {
    if constexpr (kCodes <= 2) {
      DealOutBytes(tile, t);
    } else {
#pragma unroll
      for (int q = 0; q < 2; ++q) DealOutHalf(tile.words[q], t, words_[q]);
    }
  }

  // The code of column 2 s + h of a run as it is kept, in the low bits. Above
  // it, in the low five, may be anything.
  __device__ __forceinline__ uint32_t At(int q, int run, int s, int h) const {
    if constexpr (kCodes <= 2) {
      return words_[0][0][s] >> (16 * q + 4 * run + 2 * h);
    } else if constexpr (kCodes == 5) {
      return words_[q][h][s] >> (8 * run);
    } else {
      return words_[q][0][s] >> (8 * run + kCodes * h);
    }
  }

 private:
  // By column: of 5 bits, even and odd columns stand apart.
  using HalfRuns = uint32_t[kCodes == 5 ? 2 : 1][4];

  // Byte j of word 2 q + b goes to lane j.
  __device__ __forceinline__ void DealOutBytes(const TileWords<kCodes>& tile,
                                               int t) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const uint32_t selector = 0x40 + 0x11 * (t ^ r);
      const uint32_t low =
          __byte_perm(tile.words[0][0], tile.words[0][1], selector);
      const uint32_t high =
          __byte_perm(tile.words[1][0], tile.words[1][1], selector);
      words_[0][0][r] = __byte_perm(low, high, 0x5410);
    }
    ExchangeInQuad(t, words_[0][0]);
  }

  // Pair 8 b + 2 j + hi, byte 2 (j & 1) + hi of word 2 b + (j >> 1), goes to
  // lane j.
  __device__ __forceinline__ static void DealOutHalf(
      const uint32_t (&half)[kCodes < 4 ? 4 : kCodes], int t, HalfRuns& runs) {
    uint32_t words[4] = {half[0], half[1], half[2], half[3]};
    const bool upper = (t & 2) != 0;
    SwapIf(upper, words[0], words[1]);
    SwapIf(upper, words[2], words[3]);
    const uint32_t same = (t & 1) != 0 ? 0x7632 : 0x5410;
    const uint32_t other = same ^ (0x7632 ^ 0x5410);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      runs[0][r] = __byte_perm(words[r >> 1], words[2 + (r >> 1)],
                               r % 2 == 0 ? same : other);
    }
    ExchangeInQuad(t, runs[0]);
    if constexpr (kCodes == 5) AddFifthBits(half[4], t, runs);
  }

  // The fifth bit of lane t's run i from lane s is, h = 0, bit
  // (4 t + {7, 25, 23, 9}[i]) % 32 of s's word, and h = 1, bit
  // (4 t + {16, 2, 0, 18}[i]) % 32. Each goes on top of its nibble.
  __device__ __forceinline__ static void AddFifthBits(uint32_t fifth, int t,
                                                      HalfRuns& runs) {
    uint32_t words[4] = {fifth, fifth, fifth, fifth};
    ExchangeInQuad(t, words);
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const uint32_t nibbles = runs[0][s];
      const uint32_t even =
          PickAlternate(words[s], 4 * t + 3, 4 * t + 13) & 0x10101010u;
      const uint32_t odd =
          PickAlternate(words[s], 4 * t + 12, 4 * t + 22) & 0x10101010u;
      runs[0][s] = (nibbles & 0x0f0f0f0fu) | even;
      runs[1][s] = (nibbles >> 4 & 0x0f0f0f0fu) | odd;
    }
  }

  // Bytes 0 and 2 of the word rotated right by `first`, 1 and 3 by `second`.
  __device__ __forceinline__ static uint32_t PickAlternate(uint32_t word,
                                                           int first,
                                                           int second) {
    return (__funnelshift_r(word, word, first) & 0x00ff00ffu) |
           (__funnelshift_r(word, word, second) & 0xff00ff00u);
  }

  HalfRuns words_[kCodes <= 2 ? 1 : 2];
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_OCTET_CODES_CUH_
