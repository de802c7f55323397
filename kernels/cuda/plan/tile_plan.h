// SPDX-License-Identifier: Apache-2.0
//
// Chooses the tile config of a layer by an estimate of the decode kernel's
// time, and lays the layer out for it.

#ifndef QGEMM_KERNELS_CUDA_PLAN_TILE_PLAN_H_
#define QGEMM_KERNELS_CUDA_PLAN_TILE_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/cuda/layout/device_traits.h"
#include "kernels/cuda/layout/tile_config.h"
#include "kernels/cuda/layout/tile_layout.h"
#include "kernels/matrix/weights.h"

namespace qgemm::cuda {

struct TileConfigProblem {
  int64_t n = 1;
  int64_t k = 1;
  int max_n_tiles = kMaxNTiles;  // of a block
};

// The expected time of a decode launch with m = 64.
double DecodeMicroseconds(const TileConfigProblem& layer,
                          const TileConfig& config, const DeviceTraits& device);

// The tile config with which launches of few rows of A, and of 64, are fastest
// by estimate; of layers that are multiplied beside larger ones, the fastest of
// those that leave these their SMs. n, k and max_n_tiles are at least 1.
TileConfig ChooseTileConfig(const TileConfigProblem& layer,
                            const DeviceTraits& device);

// The layout of a quantized layer on that device.
// Errors: those of DescribeTiles.
absl::StatusOr<TileLayout> PlanTileLayout(const WeightsShape& shape,
                                          const DeviceTraits& device);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_TILE_PLAN_H_
