// SPDX-License-Identifier: Apache-2.0
//
// Tile instructions of AMX, written in assembly so that files which use them
// need no flag of their own. Included by files compiled for AVX-512 alone.

#ifndef QGEMM_KERNELS_CPU_MICROKERNELS_AMX_TILES_H_
#define QGEMM_KERNELS_CPU_MICROKERNELS_AMX_TILES_H_

#include <immintrin.h>

#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/tile_scales_avx512.h"

namespace qgemm::cpu {

constexpr int kTileBytes = 1024;
constexpr int kStripRows = 16;  // activation rows of a tile
// Flush to zero and denormals are zero, as in the tile unit.
constexpr unsigned kFlushBits = 0x8040;

template <int kTile>
QGEMM_INLINE void LoadTile(const void* from, int64_t stride_bytes = 64) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(from), "r"(stride_bytes), "i"(kTile),
                 "m"(*static_cast<const uint8_t(*)[kTileBytes]>(from)));
}

template <int kTile>
QGEMM_INLINE void StoreTile(void* to) {
  asm volatile("tilestored %%tmm%c3, (%1,%2,1)"
               : "=m"(*static_cast<uint8_t(*)[kTileBytes]>(to))
               : "r"(to), "r"(int64_t{64}), "i"(kTile));
}

template <int kTile>
QGEMM_INLINE void ZeroTile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

template <int kSum, int kA, int kB>
QGEMM_INLINE void MultiplyTiles() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
               :
               : "i"(kSum), "i"(kA), "i"(kB));
}

// Products of signed bytes, in fours.
template <int kSum, int kA, int kB>
QGEMM_INLINE void MultiplyByteTiles() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0"
               :
               : "i"(kSum), "i"(kA), "i"(kB));
}

// First of the tiles of each kind; the four before them are sums.
constexpr int kActivationTile = 4;  // and 5
constexpr int kWeightTile = 6;      // and 7

struct TileShape {
  int rows;
  int row_bytes;
};

// Tiles of sums have as many rows as those of activations.
QGEMM_INLINE void ConfigureTiles(TileShape activations,
                                 TileShape weights = {16, 64}) {
  struct {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config = {};
  config.palette = 1;
  for (int tile = 0; tile < 8; ++tile) {
    const TileShape shape = tile >= kWeightTile ? weights
                            : tile >= kActivationTile
                                ? activations
                                : TileShape{activations.rows, 64};
    config.row_bytes[tile] = static_cast<uint16_t>(shape.row_bytes);
    config.rows[tile] = static_cast<uint8_t>(shape.rows);
  }
  asm volatile("ldtilecfg %0" : : "m"(config));
}

// Asks for the lines of a strip of activations.
QGEMM_INLINE void PrefetchStrip(const uint16_t* a) {
  asm("" : "+r"(a));  // or each line would have a pointer of its own
#pragma GCC unroll 16
  for (int r = 0; r < kStripRows; ++r) {
    _mm_prefetch(reinterpret_cast<const char*>(a + r * kBlockElements),
                 _MM_HINT_T0);
  }
}

QGEMM_INLINE void ReleaseTiles() { asm volatile("tilerelease"); }

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_MICROKERNELS_AMX_TILES_H_
