// SPDX-License-Identifier: Apache-2.0
//
// One row tile's part of a stage in mode A32: from codes to whole numbers in
// bf16, without a table, and the scales of its blocks.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_WEIGHTS_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_WEIGHTS_CUH_

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/device/decode.cuh"
#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/weight_tile.cuh"
#include "kernels/cuda/layout/a32_layout.h"
#include "kernels/cuda/layout/tile_layout.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {

// Kernel parameters.
struct A32Arguments {
  GemmArguments gemm;  // a is split (a32_layout.h), or as it comes
  ScaleKind scale_kind;
  FloatType a_type;  // of a that comes as it is
};

// The zero of layers that have none of their own.
inline constexpr uint32_t kA32Middle = 8;

// The places of a lane's part of a row tile in slot 0, in bytes from the start
// of shared memory. Worked out once, not with every stage.
struct A32WeightPlace {
  int codes;
  int scales;
  int zeros;

  __device__ __forceinline__ A32WeightPlace(const A32Arguments& args,
                                            int weights, int tile, int lane) {
    const GemmArguments& gemm = args.gemm;
    const int g = lane >> 2;
    const int pair_bytes = args.scale_kind == ScaleKind::kFloat32 ? 8 : 4;
    const int first_scale = weights + gemm.n_tiles * gemm.tile_code_bytes;
    const int first_zero = first_scale + gemm.n_tiles * gemm.tile_scale_bytes;
    codes = KeepInRegister(weights + tile * gemm.tile_code_bytes + lane * 16);
    scales = KeepInRegister(first_scale + tile * gemm.tile_scale_bytes +
                            g * gemm.groups * pair_bytes);
    zeros = KeepInRegister(first_zero + 2 * (tile * 8 + g) * gemm.groups);
  }
};

// The lane's rows are g = lane / 4 and g + 8 of the tile. kScale is the kind of
// scales that change within a stage, kRow where neither they nor zeros do.
template <int kCodes, ScaleKind kScale>
class A32Tile {
  static_assert(kCodes == kTernaryCodes || BitsOf(kCodes) == 4,
                "mode A32 is for ternary codes and those of 4 bits");

 public:
  // `slot` is as far from the start of shared memory as the stage's slot from
  // slot 0; read until the tile is no longer used.
  __device__ __forceinline__ A32Tile(const A32Arguments& args, const char* slot,
                                     const A32WeightPlace& place)
      : args_(args), scales_(slot + place.scales), zeros_(slot + place.zeros) {
    // Neither kind has codes by 8 bytes a lane.
    LoadHalves<kCodes>(slot + place.codes, nullptr, halves_);
    if constexpr (kOneZero) numbers_.SetZeros(ZerosOf(0));
  }

  // The operands of the two steps of block `block`, 0 to 3: numbers of the
  // codebook, less zeros; ternary ones times kTernaryUnit.
  __device__ __forceinline__ void Decode(int block, uint32_t (&a)[2][4]) const {
    const HalfTile<kCodes>& half = halves_[block >> 1];
    if constexpr (kCodes == kTernaryCodes) {
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        DecodeStep<kCodes>(half, block & 1, s, nullptr, 0, a[s]);
      }
    } else if constexpr (kCodes == kNumberCodes) {
      NumberDecoder<__nv_bfloat16> decoder = numbers_;
      if constexpr (!kOneZero) {
        decoder.SetZeros(ZerosOf(block * args_.gemm.groups >> 2));
      }
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        decoder.Decode(half.words[2 * (block & 1) + s], a[s]);
      }
    } else {
      constexpr uint32_t kBase = kIntegerBase<__nv_bfloat16>;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const uint32_t word = half.words[2 * (block & 1) + (i >> 2)];
        const uint32_t code =
            AndOr(word >> A32CodeShift(i & 3), kA32CodeMask, kBase);
        a[i >> 2][i & 3] = SubtractPair<__nv_bfloat16>(
            code, kBase | kA32Middle << 16 | kA32Middle);
      }
    }
  }

  // Scales of the two rows in block `block`.
  __device__ __forceinline__ float2 ScalesOf(int block) const {
    return ScalesOfKind<kScale>(block);
  }

  // The one scale of each of the two rows, 1 where a layer has one a row.
  __device__ __forceinline__ float2 Scales() const {
    if constexpr (kCodes == kTernaryCodes) return make_float2(1, 1);
    switch (args_.scale_kind) {
      case ScaleKind::kFloat16:
        return ScalesOfKind<ScaleKind::kFloat16>(0);
      case ScaleKind::kBFloat16:
        return ScalesOfKind<ScaleKind::kBFloat16>(0);
      case ScaleKind::kFloat32:
        return ScalesOfKind<ScaleKind::kFloat32>(0);
      default:
        return make_float2(1, 1);
    }
  }

 private:
  // Zeros do not change within a stage.
  static constexpr bool kOneZero =
      kCodes == kNumberCodes && kScale == ScaleKind::kRow;

  template <ScaleKind kKind>
  __device__ __forceinline__ float2 ScalesOfKind(int block) const {
    return TileScales<kKind>{scales_}.OfBlock(args_.gemm, block);
  }

  // Zeros of the two rows in a group, a byte each.
  __device__ __forceinline__ uint32_t ZerosOf(int group) const {
    return *reinterpret_cast<const uint16_t*>(zeros_ + 2 * group);
  }

  const A32Arguments& args_;
  const char* const scales_;
  const char* const zeros_;
  HalfTile<kCodes> halves_[2];
  NumberDecoder<__nv_bfloat16> numbers_;  // kOneZero only
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_WEIGHTS_CUH_
