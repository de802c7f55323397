// SPDX-License-Identifier: Apache-2.0
//
// Reads a tile's scales in portable C++. Included by the scalar microkernels
// only, which are all compiled with the same flags.

#ifndef QGEMM_KERNELS_CPU_MICROKERNELS_TILE_SCALES_SCALAR_H_
#define QGEMM_KERNELS_CPU_MICROKERNELS_TILE_SCALES_SCALAR_H_

#include <cstring>

#include "base/float16.h"
#include "kernels/cpu/microkernels/microkernel.h"

namespace qgemm::cpu {

// The scale of row `lane` in `group`, an E4M4 one as its sixteenth.
inline float TileScaleAt(const TileArgs& args, int64_t group, int lane) {
  const int64_t index = group * kTileRows + lane;
  uint16_t half;
  float single;
  switch (args.scale_type) {
    case kTileScaleE4m4:
      return Float16ToFloat(static_cast<uint16_t>(args.scales[index] << 6));
    case kTileScaleFloat16:
      std::memcpy(&half, args.scales + 2 * index, sizeof(half));
      return Float16ToFloat(half);
    case kTileScaleBFloat16:
      std::memcpy(&half, args.scales + 2 * index, sizeof(half));
      return BFloat16ToFloat(half);
    default:
      std::memcpy(&single, args.scales + 4 * index, sizeof(single));
      return single;
  }
}

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_MICROKERNELS_TILE_SCALES_SCALAR_H_
