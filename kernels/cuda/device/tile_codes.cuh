// SPDX-License-Identifier: Apache-2.0
//
// One lane's half of a tile on the device: its words, its scales and zeros.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_TILE_CODES_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_TILE_CODES_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/cuda/layout/tile_address.h"
#include "kernels/cuda/layout/tiled_weights.h"

namespace qgemm::cuda {

// The words that a half of a lane owns. kCodes is TileLayout::codes.
template <int kCodes>
struct HalfWords {
  static constexpr int kCount = BitsOf(kCodes);
  static_assert(kCount >= 2 && kCount <= kMaxWordsPerHalf,
                "tiles hold codes of 2 to 5 bits");
  uint32_t words[kCount];
};

template <int kCodes>
__device__ __forceinline__ HalfWords<kCodes> LoadHalf(const uint8_t* tile_codes,
                                                      LaneHalf owner) {
  HalfWords<kCodes> half;
#pragma unroll
  for (int word = 0; word < half.kCount; ++word) {
    half.words[word] = *reinterpret_cast<const uint32_t*>(
        tile_codes + WordOffset(kCodes, owner, word));
  }
  return half;
}

__device__ __forceinline__ float E4m4ToFloatOnDevice(uint8_t code) {
  // The code's bits below a float exponent are the value times 2^-116.
  return __uint_as_float(static_cast<uint32_t>(code) << 19) * 0x1p116f;
}

// Scale `index` of an array of scales as they are kept in tiles; not kRow.
__device__ __forceinline__ float ScaleAt(ScaleKind kind, const uint8_t* scales,
                                         int64_t index) {
  switch (kind) {
    case ScaleKind::kE4m4:
      return E4m4ToFloatOnDevice(scales[index]);
    case ScaleKind::kFloat16:
      return __half2float(reinterpret_cast<const __half*>(scales)[index]);
    case ScaleKind::kBFloat16:
      return __bfloat162float(
          reinterpret_cast<const __nv_bfloat16*>(scales)[index]);
    default:
      return reinterpret_cast<const float*>(scales)[index];
  }
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_TILE_CODES_CUH_
