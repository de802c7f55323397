// SPDX-License-Identifier: Apache-2.0
//
// A row tile's part of a stage whose fp16 scales, one to four of 128 columns,
// are multiplied into the weights, so that the tensor cores add up all of them.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_FLOAT16_SCALES_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_FLOAT16_SCALES_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device/prefill_gemm/arguments.cuh"
#include "kernels/cuda/device/weight_tile.cuh"

namespace qgemm::cuda {

// The scales of a tile's rows g and g + 8 in one block, as factors of pairs of
// weights: fp16 ones times PrefillArguments::scale_factor, exact but where they
// become subnormal.
struct HalfFactors {
  __half2 of_row[2];

  __device__ __forceinline__ HalfFactors(uint32_t scales,
                                         uint32_t scale_factor) {
    const __half2 both =
        __hmul2(reinterpret_cast<const __half2&>(scales),
                reinterpret_cast<const __half2&>(scale_factor));
    of_row[0] = __low2half2(both);
    of_row[1] = __high2half2(both);
  }
  __device__ __forceinline__ uint32_t Multiply(int row, uint32_t pair) const {
    const __half2 product =
        __hmul2(reinterpret_cast<const __half2&>(pair), of_row[row]);
    return reinterpret_cast<const uint32_t&>(product);
  }
};

// A scale of 11 bits is two bf16, so that a weight is rounded once.
struct BFloat16Factors {
  __nv_bfloat162 high[2];
  __nv_bfloat162 low[2];

  __device__ __forceinline__ BFloat16Factors(uint32_t scales, uint32_t) {
    const float2 both =
        __half22float2(reinterpret_cast<const __half2&>(scales));
    Split(both.x, 0);
    Split(both.y, 1);
  }
  __device__ __forceinline__ uint32_t Multiply(int row, uint32_t pair) const {
    const __nv_bfloat162& weights =
        reinterpret_cast<const __nv_bfloat162&>(pair);
    const __nv_bfloat162 product =
        __hfma2(weights, high[row], __hmul2(weights, low[row]));
    return reinterpret_cast<const uint32_t&>(product);
  }

 private:
  __device__ __forceinline__ void Split(float scale, int row) {
    high[row] = __float2bfloat162_rn(scale);
    low[row] = __float2bfloat162_rn(scale - __low2float(high[row]));
  }
};

template <int kCodes, bool kZeros, typename T>
class Float16ScaledTile {
 public:
  static constexpr bool kFolded = true;

  static __device__ __forceinline__ LanePlace PlaceOf(const GemmArguments& args,
                                                      int weights, int tile,
                                                      int lane) {
    return Tile::PlaceOf(args, weights, tile, lane);
  }
  __device__ __forceinline__ void Load(const char* slot,
                                       const LanePlace& place) {
    tile_.Load(slot, place);
  }

  // The weights of block `block`, 0 to 3, without their scales.
  __device__ __forceinline__ void LookUp(const PrefillArguments& args,
                                         int block, const char* table, int lane,
                                         uint32_t (&entries)[2][4]) const {
    if constexpr (kZeros) {
      tile_.Decode(block, GroupOf(args, block), table, lane, entries);
    } else {
      tile_.LookUp(block, table, lane, entries);
    }
  }
  // Makes the two A operands of the block.
  __device__ __forceinline__ void MultiplyScales(
      const PrefillArguments& args, int block, const uint32_t (&entries)[2][4],
      uint32_t (&a)[2][4]) const {
    const uint32_t scales = *reinterpret_cast<const uint32_t*>(
        tile_.scales.pairs + GroupOf(args, block) * sizeof(uint32_t));
    const Factors factors(scales, args.scale_factor);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      a[i >> 2][i & 3] = factors.Multiply(i % 2, entries[i >> 2][i & 3]);
    }
  }

 private:
  using Tile = StageTile<kCodes, ScaleKind::kFloat16, kZeros, T>;
  using Factors = std::conditional_t<std::is_same_v<T, __half>, HalfFactors,
                                     BFloat16Factors>;

  static __device__ __forceinline__ int GroupOf(const PrefillArguments& args,
                                                int block) {
    return block * args.gemm.groups >> 2;
  }

  Tile tile_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_FLOAT16_SCALES_CUH_
