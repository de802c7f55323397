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
  bool has_zeros;
  FloatType a_type;  // of a that comes as it is
};

// The zero of layers that have none of their own.
inline constexpr uint32_t kA32Middle = 8;

// (word & mask) | base in one instruction.
__device__ __forceinline__ uint32_t AndOr(uint32_t word, uint32_t mask,
                                          uint32_t base) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;"
      : "=r"(result)
      : "r"(word), "r"(mask), "r"(base));
  return result;
}

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

// The lane's rows are g = lane / 4 and g + 8 of the tile.
template <int kCodes, bool kZeros>
class A32Tile {
  static_assert(kCodes == kTernaryCodes || kCodes == 4,
                "mode A32 is for ternary codes and those of 4 bits");

 public:
  // `slot` is as far from the start of shared memory as the stage's slot from
  // slot 0; read until the tile is no longer used.
  __device__ __forceinline__ A32Tile(const A32Arguments& args, const char* slot,
                                     const A32WeightPlace& place)
      : args_(args), scales_(slot + place.scales), zeros_(slot + place.zeros) {
    // Neither kind has codes by 8 bytes a lane.
    LoadHalves<kCodes>(slot + place.codes, nullptr, halves_);
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
    } else {
      uint32_t zeros[2];
      LoadZeros(block, zeros);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const uint32_t word = half.words[2 * (block & 1) + (i >> 2)];
        const uint32_t code =
            AndOr(word >> A32CodeShift(i & 3), kA32CodeMask, kBase);
        a[i >> 2][i & 3] = SubtractPair<__nv_bfloat16>(code, zeros[i & 1]);
      }
    }
  }

  // Scales of the two rows in block `block`, of that kind.
  template <ScaleKind kScale>
  __device__ __forceinline__ float2 ScalesOf(int block) const {
    return TileScales<kScale>{scales_}.OfBlock(args_.gemm, block);
  }

  // The one scale of each of the two rows, 1 where a layer has one a row.
  __device__ __forceinline__ float2 Scales() const {
    if constexpr (kCodes == kTernaryCodes) return make_float2(1, 1);
    switch (args_.scale_kind) {
      case ScaleKind::kFloat16:
        return ScalesOf<ScaleKind::kFloat16>(0);
      case ScaleKind::kBFloat16:
        return ScalesOf<ScaleKind::kBFloat16>(0);
      case ScaleKind::kFloat32:
        return ScalesOf<ScaleKind::kFloat32>(0);
      default:
        return make_float2(1, 1);
    }
  }

 private:
  static constexpr uint32_t kBase = IntegerBase<__nv_bfloat16>::kPair;

  // Zeros of the two rows in the block, each twice, above the base.
  __device__ __forceinline__ void LoadZeros(int block,
                                            uint32_t (&zeros)[2]) const {
    if constexpr (!kZeros) {
      zeros[0] = zeros[1] = kBase | kA32Middle << 16 | kA32Middle;
      return;
    }
    const int group = block * args_.gemm.groups >> 2;
    const uint32_t pair =
        *reinterpret_cast<const uint16_t*>(zeros_ + 2 * group);
    zeros[0] = kBase | __byte_perm(pair, 0, 0x4040);
    zeros[1] = kBase | __byte_perm(pair, 0, 0x4141);
  }

  const A32Arguments& args_;
  const char* const scales_;
  const char* const zeros_;
  HalfTile<kCodes> halves_[2];
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_A32_GEMM_WEIGHTS_CUH_
