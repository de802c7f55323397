// SPDX-License-Identifier: Apache-2.0
//
// The share of each block of the kernel of mode A8 for many rows: pieces of
// tiles of C.

#ifndef QGEMM_KERNELS_CUDA_PLAN_W4A8_PIECES_H_
#define QGEMM_KERNELS_CUDA_PLAN_W4A8_PIECES_H_

#include "base/host_device.h"

namespace qgemm::cuda {

// Column tiles `begin` to `end` of a tile of C.
struct W4A8Piece {
  int tile;
  int begin;
  int end;
};

// A block's pieces, one after the other. Tiles go round the blocks; or, where
// there are no more blocks than tiles, each block has an equal share of all
// column tiles, which are counted tile by tile. Of a tile that falls to two
// blocks the first multiplies its columns before all else and hands the sums
// to the other, which goes on from them after all else. Nobody waits before
// handing over, and blocks start in order, so that no block waits for ever.
struct W4A8Pieces {
  int tiles = 1;
  int k_tiles = 1;
  int block = 0;
  int blocks = 1;
  bool shares = false;

  QGEMM_HOST_DEVICE constexpr int ShareBegin(int of_block) const {
    const int all = tiles * k_tiles;
    const int more = all % blocks;  // blocks that have one more than others
    return all / blocks * of_block + (of_block < more ? of_block : more);
  }
  QGEMM_HOST_DEVICE constexpr int Count() const {
    if (!shares) return (tiles - block + blocks - 1) / blocks;
    return CeilDiv(ShareBegin(block + 1), k_tiles) -
           ShareBegin(block) / k_tiles;
  }
  QGEMM_HOST_DEVICE constexpr W4A8Piece At(int index) const {
    if (!shares) return {block + index * blocks, 0, k_tiles};
    const int begin = ShareBegin(block);
    const int end = ShareBegin(block + 1);
    const int head = end % k_tiles;
    const int last = end / k_tiles;
    if (head > 0 && index == 0) return {last, 0, head};
    // Whole tiles, then the rest of the one before them.
    const int whole = CeilDiv(begin, k_tiles) + index - (head > 0 ? 1 : 0);
    if (whole < last) return {whole, 0, k_tiles};
    return {begin / k_tiles, begin % k_tiles, k_tiles};
  }
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_W4A8_PIECES_H_
