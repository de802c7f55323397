// SPDX-License-Identifier: Apache-2.0
//
// Scatters panels of a canonical layer into tiles, and brings codes back.
//
// A batch is any number of panels of any shape, in any order, whose bytes lie
// on the device. Memory must be zero before the first batch, and no element
// may come twice: what several panels share a word of is merged by atomic
// OR, so neither the order of panels nor that of threads shows.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_REPACK_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_REPACK_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/layout/tile_layout.h"
#include "kernels/cuda/layout/tiled_weights.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {

// A rectangle of elements, row-major without gaps: codes by row and column,
// or scales or zeros by row and group.
struct DevicePanel {
  int64_t row_begin;
  int64_t rows;
  int64_t column_begin;
  int64_t columns;
  int64_t offset;      // of its first byte in the batch; a multiple of 8
  int64_t first_unit;  // the sum of the units of all panels before it
};

struct PanelBatch {
  const DevicePanel* panels = nullptr;  // device, [count]
  int64_t count = 0;
  int64_t units = 0;               // of all panels
  const uint8_t* bytes = nullptr;  // device; offsets count from here
};

// Units of work of a panel of codes: the tiles that it touches.
int64_t CodeUnits(const DevicePanel& panel);
// Units of a panel of scales, and of zeros: elements to write.
int64_t ScaleUnits(const DevicePanel& panel);
int64_t ZeroUnits(const TileLayout& layout, const DevicePanel& panel);

// Enqueue and return; the batch stays borrowed until the stream passes.
// `memory` holds layout.total_bytes. A batch has at most 2^32 units.
cudaError_t LaunchScatterCodes(const TileLayout& layout,
                               const PanelBatch& batch, uint8_t* memory,
                               cudaStream_t stream);
// Scales are elements of `type`; those of a kRow layer become fp32.
cudaError_t LaunchScatterScales(const TileLayout& layout,
                                const PanelBatch& batch, ScaleType type,
                                uint8_t* memory, cudaStream_t stream);
// Zeros of a kRow layer are repeated for every tile.
cudaError_t LaunchScatterZeros(const TileLayout& layout,
                               const PanelBatch& batch, uint8_t* memory,
                               cudaStream_t stream);

// Writes max |scale| over the layer, scales as stored, to `largest` (device).
// Enqueues on `stream`; `largest` stays borrowed until it passes.
cudaError_t LaunchLargestScale(const TiledWeights& weights, float* largest,
                               cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_REPACK_H_
