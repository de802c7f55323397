// SPDX-License-Identifier: Apache-2.0
//
// A resident quantized layer as kernels receive it. Borrows device memory.

#ifndef QGEMM_KERNELS_CUDA_LAYOUT_TILED_WEIGHTS_H_
#define QGEMM_KERNELS_CUDA_LAYOUT_TILED_WEIGHTS_H_

#include <cstdint>

#include "kernels/cuda/layout/tile_layout.h"

namespace qgemm::cuda {

// w[n,k] = (codebook[code] - zero_unit * zero) * scale * factor, with scale as
// stored (E4M4 as its value, not a sixteenth).
struct TiledWeights {
  TileLayout layout;
  const uint8_t* memory = nullptr;  // device, layout.total_bytes
  float factor = 1;                 // a power of two
  float zero_unit = 1;              // a power of two
  // The largest magnitude of a scale as stored, which bounds weights.
  float largest_scale = 0;
  bool has_bias = false;
  bool has_permutation = false;

  const float* row_scales() const {
    return reinterpret_cast<const float*>(memory + layout.row_scales_offset);
  }
  const float* bias() const {
    return reinterpret_cast<const float*>(memory + layout.bias_offset);
  }
  const int32_t* permutation() const {
    return reinterpret_cast<const int32_t*>(memory + layout.permutation_offset);
  }
  const float* codebook() const {
    return reinterpret_cast<const float*>(memory + layout.codebook_offset);
  }
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAYOUT_TILED_WEIGHTS_H_
