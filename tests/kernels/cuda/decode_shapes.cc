// SPDX-License-Identifier: Apache-2.0
//
// Tries sizes until the chooser of tile configs gives the one that is wanted.

#include "tests/kernels/cuda/decode_shapes.h"

#include "kernels/cuda/layout/tile_config.h"
#include "kernels/cuda/plan/tile_plan.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kMostK = 4096;
constexpr int64_t kMostNTiles = 2048;  // of a layer

// Two tiles a split; where K is in one part of blocks of four row tiles, more
// than a ring has slots.
int64_t LeastK(int split_k, int n_tiles) {
  if (split_k > 1) return 2 * split_k * kTileColumns;
  return n_tiles == 4 ? kMostK : 8 * kTileColumns;
}

}  // namespace

std::optional<LayerSize> ShapeWith(int split_k, int n_tiles,
                                   const DeviceTraits& device) {
  for (int64_t k = LeastK(split_k, n_tiles); k <= kMostK; k *= 2) {
    for (int64_t tiles = 1; tiles <= kMostNTiles; ++tiles) {
      const int64_t n = tiles * kTileRows - 3;
      const TileConfig config = ChooseTileConfig({n, k}, device);
      if (config.split_k == split_k && config.n_tiles == n_tiles) {
        return LayerSize{n, k};
      }
    }
  }
  return std::nullopt;
}

}  // namespace qgemm::cuda
