// SPDX-License-Identifier: Apache-2.0
//
// A warp decodes a tile. Lane i holds codebook entry i, so that a shuffle by
// the code looks it up; lanes then store runs of eight columns, 16 bytes at
// once.

#include "kernels/cuda/device/decode.cuh"
#include "kernels/cuda/device/octet_codes.cuh"
#include "kernels/cuda/device/tile_codes.cuh"
#include "kernels/cuda/launch/dequantize.h"
#include "kernels/cuda/layout/tile_address.h"

namespace qgemm::cuda {
namespace {

constexpr int kThreads = 256;
// 48 registers a thread: 40 of 64 warps, whose loads in flight outdo DRAM.
constexpr int kBlocksPerSm = 5;
constexpr int kTilesPerBlock = kThreads / kLanesPerTile;
// Tiles of one launch, and row tiles of a layer, are counted in 32 bits.
constexpr int64_t kMaxTiles = int64_t{1} << 31;

// Kernel parameters, with the widths that the kernel computes in.
struct Arguments {
  const uint8_t* memory;
  const float* codebook;
  const float* row_scales;
  ScaleKind scale_kind;
  int groups;
  float factor;  // the layer's and the caller's
  float zero_unit;
  // The layer's.
  uint32_t k_tiles;
  uint32_t n_tiles_per_stage;
  uint32_t code_bytes;
  uint32_t scale_bytes;
  uint32_t stage_bytes;
  int64_t k;
  // The rows to write.
  uint32_t tiles;
  uint32_t first_n_tile;
  int64_t row_begin;
  int64_t row_end;
  uint8_t* out;
  int64_t ldo;
};

// A warp's tile, and what its lane does of it.
struct WarpTile {
  uint32_t n_tile;
  // The tile's parts (tuning/tile_address.h).
  const uint8_t* codes;
  const uint8_t* scales;
  const uint8_t* zeros;
  int columns_left;  // of the layer from the tile's first on, at most 128
  int stored_left;   // of ldo
  bool has_row[2];   // rows g and g + 8 are among those asked for
  uint8_t* out;      // row g, column 8 t of the tile
};

__device__ __forceinline__ WarpTile PlaceOf(const Arguments& args,
                                            uint32_t tile, int lane) {
  WarpTile place;
  const uint32_t row = tile / args.k_tiles;
  const uint32_t k_tile = tile - row * args.k_tiles;
  place.n_tile = args.first_n_tile + row;
  const uint32_t block = place.n_tile / args.n_tiles_per_stage;
  const uint32_t in_stage = place.n_tile - block * args.n_tiles_per_stage;
  const uint64_t stage = uint64_t{block} * args.k_tiles + k_tile;
  const uint8_t* const memory = args.memory + stage * args.stage_bytes;
  place.codes = memory + in_stage * args.code_bytes;
  const uint8_t* const scales =
      memory + args.n_tiles_per_stage * args.code_bytes;
  place.scales = scales + in_stage * args.scale_bytes;
  place.zeros = scales + args.n_tiles_per_stage * args.scale_bytes +
                in_stage * static_cast<uint32_t>(args.groups * kTileRows);
  const int64_t column = int64_t{k_tile} * kTileColumns;
  place.columns_left =
      static_cast<int>(min(args.k - column, int64_t{kTileColumns}));
  place.stored_left =
      static_cast<int>(min(args.ldo - column, int64_t{kTileColumns}));
  const int64_t lane_row = int64_t{place.n_tile} * kTileRows + (lane >> 2);
#pragma unroll
  for (int hi = 0; hi < 2; ++hi) {
    const int64_t of_run = lane_row + 8 * hi;
    place.has_row[hi] = of_run >= args.row_begin && of_run < args.row_end;
  }
  place.out =
      args.out +
      ((lane_row - args.row_begin) * args.ldo + column + 8 * (lane & 3)) * 2;
  return place;
}

// Scales and zeros of a tile's rows g and g + 8, by block of 32 columns. The
// scales hold the factor, the zeros the codebook's unit.
template <bool kE4m4, bool kZeros>
class TileGroups {
 public:
  __device__ __forceinline__ TileGroups(const Arguments& args,
                                        const WarpTile& tile, int lane)
      : args_(args), g_(lane >> 2), scales_(tile.scales), zeros_(tile.zeros) {
    if constexpr (kE4m4) {
      codes_ = LoadOnce8(scales_ + g_ * 8);
    } else if (args.scale_kind == ScaleKind::kRow) {
      const float* rows =
          args.row_scales + uint64_t{tile.n_tile} * kTileRows + g_;
      row_scales_[0] = rows[0] * args.factor;
      row_scales_[1] = rows[8] * args.factor;
    }
  }

  __device__ __forceinline__ void LoadBlock(int block, float (&scale)[2],
                                            float (&zero)[2]) const {
    const int index = 2 * (g_ * args_.groups + (block * args_.groups >> 2));
#pragma unroll
    for (int hi = 0; hi < 2; ++hi) {
      if constexpr (kE4m4) {
        const uint32_t codes = block < 2 ? codes_.x : codes_.y;
        const uint32_t code = codes >> (16 * (block & 1) + 8 * hi);
        scale[hi] =
            E4m4ToFloatOnDevice(static_cast<uint8_t>(code)) * args_.factor;
      } else if (args_.scale_kind == ScaleKind::kRow) {
        scale[hi] = row_scales_[hi];
      } else {
        scale[hi] =
            ScaleAt(args_.scale_kind, scales_, index + hi) * args_.factor;
      }
      zero[hi] = 0;
      if constexpr (kZeros) {
        zero[hi] = args_.zero_unit * static_cast<float>(zeros_[index + hi]);
      }
    }
  }

 private:
  const Arguments& args_;
  const int g_;
  const uint8_t* const scales_;
  const uint8_t* const zeros_;
  uint2 codes_ = {};
  float row_scales_[2] = {};
};

// Columns from `columns_left` on, counted from the run's first, become zero.
__device__ __forceinline__ void ClearPadding(int columns_left,
                                             uint32_t (&words)[4]) {
#pragma unroll
  for (int s = 0; s < 4; ++s) {
    if (2 * s >= columns_left) words[s] = 0;
    if (2 * s + 1 == columns_left) words[s] &= 0xffff;
  }
}

__device__ __forceinline__ void StoreRun(const WarpTile& place, int64_t ldo,
                                         int column, int hi,
                                         const uint32_t (&words)[4]) {
  *reinterpret_cast<uint4*>(place.out + (8 * hi * ldo + column) * 2) =
      make_uint4(words[0], words[1], words[2], words[3]);
}

// The codebook's entry of a code as tiles keep it.
template <int kCodes>
__device__ __forceinline__ int EntryOf(int kept) {
  return kCodes == kTernaryCodes ? kept + 1 : kept;
}

template <int kCodes, bool kE4m4, bool kZeros, typename Out>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    Dequantize(const __grid_constant__ Arguments args) {
  const int lane = static_cast<int>(threadIdx.x) % kLanesPerTile;
  const int t = lane & 3;
  const uint32_t tile =
      blockIdx.x * kTilesPerBlock + threadIdx.x / kLanesPerTile;
  if (tile >= args.tiles) return;  // the whole warp
  const WarpTile place = PlaceOf(args, tile, lane);
  const OctetCodes<OctetKind(kCodes)> codes(
      LoadTileWords<kCodes>(place.codes, lane), t);
  const TileGroups<kE4m4, kZeros> groups(args, place, lane);
  constexpr int kEntries = 1 << HalfWords<kCodes>::kCount;
  const float entry = args.codebook[EntryOf<kCodes>(lane) % kEntries];
#pragma unroll
  for (int block = 0; block < 4; ++block) {
    float scale[2];
    float zero[2];
    groups.LoadBlock(block, scale, zero);
#pragma unroll
    for (int hi = 0; hi < 2; ++hi) {
      uint32_t words[4];
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        float pair[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int code = static_cast<int>(
              codes.At(block >> 1, 2 * (block & 1) + hi, s, h));
          pair[h] = __shfl_sync(0xffffffff, entry, code);
          if constexpr (kZeros) pair[h] -= zero[hi];
        }
        words[s] = PackPair(pair[0] * scale[hi], pair[1] * scale[hi], Out());
      }
      if (place.columns_left < kTileColumns) {
        ClearPadding(place.columns_left - 32 * block - 8 * t, words);
      }
      if (place.has_row[hi] && 32 * block + 8 * t < place.stored_left) {
        StoreRun(place, args.ldo, 32 * block, hi, words);
      }
    }
  }
}

using Kernel = void (*)(Arguments);

template <int kCodes, bool kE4m4, bool kZeros>
Kernel KernelOf(FloatType out_type) {
  return out_type == FloatType::kFloat16
             ? &Dequantize<kCodes, kE4m4, kZeros, __half>
             : &Dequantize<kCodes, kE4m4, kZeros, __nv_bfloat16>;
}

template <int kCodes>
Kernel KernelOf(const DequantizeArgs& args) {
  const TileLayout& layout = args.weights.layout;
  return layout.scale_kind == ScaleKind::kE4m4
             ? KernelOf<kCodes, true, false>(args.out_type)
             : KernelOf<kCodes, false, false>(args.out_type);
}

// Null if there is none.
Kernel ChooseKernel(const DequantizeArgs& args) {
  const TileLayout& layout = args.weights.layout;
  switch (layout.codes) {
    case kTernaryCodes:
      return KernelOf<kTernaryCodes, false, false>(args.out_type);
    case 2:
      return KernelOf<2>(args);
    case 3:
      return KernelOf<3>(args);
    case 4:
      return KernelOf<4>(args);
    case 5:
      return KernelOf<5>(args);
    case kNumberCodes:
      return KernelOf<kNumberCodes, false, true>(args.out_type);
  }
  return nullptr;
}

bool IsLegal(const DequantizeArgs& args) {
  const TileLayout& layout = args.weights.layout;
  return args.out_type != FloatType::kFloat32 && args.row_begin >= 0 &&
         args.rows >= 0 && args.row_begin + args.rows <= layout.n &&
         args.ldo % 8 == 0 && args.ldo >= layout.k &&
         args.ldo <= layout.padded_k() &&
         reinterpret_cast<uintptr_t>(args.out) % 16 == 0;
}

// n_tiles: those that hold the rows.
Arguments ArgumentsOf(const DequantizeArgs& args, int64_t n_tiles) {
  const TileLayout& layout = args.weights.layout;
  Arguments result = {};
  result.memory = args.weights.memory;
  result.codebook = args.weights.codebook();
  result.row_scales = args.weights.row_scales();
  result.scale_kind = layout.scale_kind;
  result.groups = layout.groups;
  result.factor = args.weights.factor * args.out_factor;
  result.zero_unit = args.weights.zero_unit;
  result.k_tiles = static_cast<uint32_t>(layout.k_tiles);
  result.n_tiles_per_stage = static_cast<uint32_t>(layout.tile_config.n_tiles);
  result.code_bytes = static_cast<uint32_t>(layout.code_bytes);
  result.scale_bytes = static_cast<uint32_t>(layout.scale_bytes);
  result.stage_bytes = static_cast<uint32_t>(layout.stage_bytes());
  result.k = layout.k;
  result.tiles = static_cast<uint32_t>(n_tiles * layout.k_tiles);
  result.first_n_tile = static_cast<uint32_t>(args.row_begin / kTileRows);
  result.row_begin = args.row_begin;
  result.row_end = args.row_begin + args.rows;
  result.out = static_cast<uint8_t*>(args.out);
  result.ldo = args.ldo;
  return result;
}

}  // namespace

cudaError_t LaunchDequantize(const DequantizeArgs& args, cudaStream_t stream) {
  if (!IsLegal(args)) return cudaErrorInvalidValue;
  if (args.rows == 0) return cudaSuccess;
  const TileLayout& layout = args.weights.layout;
  const int64_t last_n_tile = (args.row_begin + args.rows - 1) / kTileRows;
  const int64_t n_tiles = last_n_tile + 1 - args.row_begin / kTileRows;
  const Kernel kernel = ChooseKernel(args);
  if (kernel == nullptr || last_n_tile >= kMaxTiles ||
      n_tiles > kMaxTiles / layout.k_tiles) {
    return cudaErrorInvalidValue;
  }
  const Arguments arguments = ArgumentsOf(args, n_tiles);
  const int64_t blocks =
      (arguments.tiles + kTilesPerBlock - 1) / kTilesPerBlock;
  kernel<<<dim3(static_cast<unsigned>(blocks)), kThreads, 0, stream>>>(
      arguments);
  return cudaGetLastError();
}

}  // namespace qgemm::cuda
