// SPDX-License-Identifier: Apache-2.0
//
// A thread decodes one lane's half of a tile. Four lanes then exchange their
// pairs of columns, so that each stores runs of eight columns, 16 bytes at
// once.

#include <type_traits>

#include "kernels/cuda/device/tile_codes.cuh"
#include "kernels/cuda/launch/dequantize.h"
#include "kernels/cuda/tuning/tile_address.h"

namespace qgemm::cuda {
namespace {

constexpr int kThreads = 256;
// Blocks of one launch; far below CUDA's limit.
constexpr int64_t kMaxBlocks = int64_t{1} << 30;

template <typename Out>
__device__ __forceinline__ uint32_t RoundedBits(float value) {
  if constexpr (std::is_same_v<Out, __half>) {
    return __half_as_ushort(__float2half_rn(value));
  } else {
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
  }
}

// What a run of eight columns is multiplied by and shifted by.
struct GroupOfRun {
  float scale;  // out_factor and the layer's factor included
  float zero;   // in units of the codebook
};

__device__ __forceinline__ GroupOfRun LoadGroup(const DequantizeArgs& args,
                                                TileIndex tile,
                                                const CodePlace& place) {
  const TileLayout& layout = args.weights.layout;
  const int row = RowOfCode(place);
  const int group = ColumnOfCode(place) * layout.groups / kTileColumns;
  const int index = GroupIndex(layout.groups, row, group);
  const float factor = args.weights.factor * args.out_factor;
  GroupOfRun result = {factor, 0};
  if (layout.scale_kind == ScaleKind::kRow) {
    const uint8_t* scales = args.weights.memory + layout.row_scales_offset;
    result.scale *=
        ScaleAt(ScaleKind::kFloat32, scales, tile.row_tile * kTileRows + row);
  } else {
    result.scale *=
        ScaleAt(layout.scale_kind,
                args.weights.memory + ScalesOffset(layout, tile), index);
  }
  if (layout.has_zeros) {
    const uint8_t zero = args.weights.memory[ZerosOffset(layout, tile) + index];
    result.zero = args.weights.zero_unit * static_cast<float>(zero);
  }
  return result;
}

// The lane's pairs of columns 2 t + 8 j, j = 0 to 3, of 32; elements from
// column k on are zero. `columns_left` counts from the first pair.
template <int kBits, typename Out>
__device__ __forceinline__ void DecodePairs(
    const HalfWords<kBits>& half, int first_pair, const GroupOfRun& group,
    const float* codebook, int64_t columns_left, uint32_t (&pairs)[4]) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    uint32_t elements[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint32_t code = CodeIn(kBits, first_pair + 2 * j, h, half.words);
      const float value =
          MultiplyRoundToOdd(codebook[code] - group.zero, group.scale);
      elements[h] = 8 * j + h < columns_left ? RoundedBits<Out>(value) : 0;
    }
    pairs[j] = elements[0] | elements[1] << 16;
  }
}

// Of four neighbouring lanes, gives lane t word t of every lane.
__device__ __forceinline__ void TransposeQuad(int t, uint32_t (&words)[4]) {
#pragma unroll
  for (int distance = 1; distance <= 2; ++distance) {
    const bool upper = (t & distance) != 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int low = distance == 1 ? 2 * i : i;
      const int high = low + distance;
      const uint32_t other = __shfl_xor_sync(
          0xffffffff, upper ? words[low] : words[high], distance);
      words[low] = upper ? other : words[low];
      words[high] = upper ? words[high] : other;
    }
  }
}

template <int kBits, typename Out>
__global__ void __launch_bounds__(kThreads)
    Dequantize(const __grid_constant__ DequantizeArgs args) {
  const TileLayout& layout = args.weights.layout;
  __shared__ float codebook[1 << kBits];
  if (threadIdx.x < 1 << kBits) {
    codebook[threadIdx.x] = reinterpret_cast<const float*>(
        args.weights.memory + layout.codebook_offset)[threadIdx.x];
  }
  __syncthreads();
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads +
                         static_cast<int64_t>(threadIdx.x);
  const int64_t unit = thread / kHalvesPerTile;
  const TileIndex tile = {
      args.row_begin / kTileRows + unit / layout.column_tiles,
      unit % layout.column_tiles};
  const int64_t row_end = args.row_begin + args.rows;
  if (tile.row_tile * kTileRows >= row_end) return;  // the whole warp
  const LaneHalf owner = {static_cast<int>(thread % kLanesPerTile),
                          static_cast<int>(thread / kLanesPerTile % 2)};
  const HalfWords<kBits> half =
      LoadHalf<kBits>(args.weights.memory + CodesOffset(layout, tile), owner);
#pragma unroll
  for (int quarter = 0; quarter < 4; ++quarter) {
    const int first_pair = (quarter >> 1) * 8 + (quarter & 1);  // b, hi
    const CodePlace place = {owner, first_pair, 0};
    const int64_t row = tile.row_tile * kTileRows + RowOfCode(place);
    const int64_t column =
        tile.column_tile * kTileColumns + ColumnOfCode(place);
    uint32_t words[4];
    DecodePairs<kBits, Out>(half, first_pair, LoadGroup(args, tile, place),
                            codebook, layout.k - column, words);
    const int t = owner.lane & 3;
    TransposeQuad(t, words);
    const int64_t first = column + 6 * t;  // 8 t of the 32
    if (row < args.row_begin || row >= row_end || first >= args.ldo) continue;
    Out* out =
        static_cast<Out*>(args.out) + (row - args.row_begin) * args.ldo + first;
    *reinterpret_cast<uint4*>(out) =
        make_uint4(words[0], words[1], words[2], words[3]);
  }
}

template <int kBits>
void Start(const DequantizeArgs& args, unsigned blocks, cudaStream_t stream) {
  if (args.out_type == FloatType::kFloat16) {
    Dequantize<kBits, __half><<<blocks, kThreads, 0, stream>>>(args);
  } else {
    Dequantize<kBits, __nv_bfloat16><<<blocks, kThreads, 0, stream>>>(args);
  }
}

bool IsLegal(const DequantizeArgs& args) {
  const TileLayout& layout = args.weights.layout;
  return args.out_type != FloatType::kFloat32 && args.row_begin >= 0 &&
         args.rows >= 0 && args.row_begin + args.rows <= layout.n &&
         args.ldo % 8 == 0 && args.ldo >= layout.k &&
         args.ldo <= layout.padded_k() &&
         reinterpret_cast<uintptr_t>(args.out) % 16 == 0;
}

}  // namespace

cudaError_t LaunchDequantize(const DequantizeArgs& args, cudaStream_t stream) {
  if (!IsLegal(args)) return cudaErrorInvalidValue;
  if (args.rows == 0) return cudaSuccess;
  const TileLayout& layout = args.weights.layout;
  const int64_t row_tiles = (args.row_begin + args.rows - 1) / kTileRows + 1 -
                            args.row_begin / kTileRows;
  const int64_t threads = row_tiles * layout.column_tiles * kHalvesPerTile;
  const int64_t blocks = (threads + kThreads - 1) / kThreads;
  if (blocks > kMaxBlocks) return cudaErrorInvalidValue;
  switch (layout.bits) {
    case 2:
      Start<2>(args, static_cast<unsigned>(blocks), stream);
      break;
    case 3:
      Start<3>(args, static_cast<unsigned>(blocks), stream);
      break;
    case 4:
      Start<4>(args, static_cast<unsigned>(blocks), stream);
      break;
    case 5:
      Start<5>(args, static_cast<unsigned>(blocks), stream);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace qgemm::cuda
