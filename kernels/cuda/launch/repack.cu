// SPDX-License-Identifier: Apache-2.0
//
// A half of a lane's words is one thread's work: it gathers up to 32 codes
// and stores its words if the panel holds them all, else merges them.

#include "kernels/cuda/device/tile_codes.cuh"
#include "kernels/cuda/launch/repack.h"
#include "kernels/cuda/layout/tile_address.h"

namespace qgemm::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxUnits = int64_t{1} << 32;

// The panel that holds unit `unit`.
__device__ __forceinline__ const DevicePanel& PanelOfUnit(
    const PanelBatch& batch, int64_t unit) {
  int64_t low = 0;
  for (int64_t high = batch.count; high - low > 1;) {
    const int64_t middle = (low + high) / 2;
    (batch.panels[middle].first_unit <= unit ? low : high) = middle;
  }
  return batch.panels[low];
}

// Two codes of a row; `mask` has a bit for each that the panel holds.
struct TwoCodes {
  uint32_t code[2];
  uint32_t mask;
};

// The code of no bits, for places that a panel does not hold.
template <int kCodes>
constexpr uint32_t kNoCode = kCodes == kTernaryCodes ? 1 : 0;

template <int kCodes>
__device__ __forceinline__ TwoCodes LoadTwo(const DevicePanel& panel,
                                            const uint8_t* bytes, int64_t row,
                                            int64_t column) {
  TwoCodes two = {{kNoCode<kCodes>, kNoCode<kCodes>}, 0};
  const int64_t r = row - panel.row_begin;
  const int64_t c = column - panel.column_begin;
  if (r < 0 || r >= panel.rows) return two;
  const int64_t offset = panel.offset + r * panel.columns + c;
  if (c >= 0 && c + 2 <= panel.columns && offset % 2 == 0) {
    const uint32_t pair = *reinterpret_cast<const uint16_t*>(bytes + offset);
    return {{pair & 0xff, pair >> 8}, 3};
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (c + i < 0 || c + i >= panel.columns) continue;
    two.code[i] = bytes[offset + i];
    two.mask |= 1u << i;
  }
  return two;
}

// Gathers the half's codes; returns whether the panel holds all of them.
template <int kCodes>
__device__ __forceinline__ bool GatherHalf(const DevicePanel& panel,
                                           const uint8_t* bytes, TileIndex tile,
                                           LaneHalf owner,
                                           HalfWords<kCodes>& half) {
  uint32_t all = 3;
#pragma unroll
  for (int pair = 0; pair < kPairsPerHalf; ++pair) {
    const CodePlace place = {owner, pair, 0};
    const TwoCodes two = LoadTwo<kCodes>(
        panel, bytes, tile.n_tile * kTileRows + RowOfCode(place),
        tile.k_tile * kTileColumns + ColumnOfCode(place));
    all &= two.mask;
    AddCode(kCodes, pair, 0, two.code[0], half.words);
    AddCode(kCodes, pair, 1, two.code[1], half.words);
  }
  return all == 3;
}

template <int kCodes>
__global__ void __launch_bounds__(kThreads)
    ScatterCodes(TileLayout layout, PanelBatch batch, uint8_t* memory) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads +
                         static_cast<int64_t>(threadIdx.x);
  const int64_t unit = thread / kHalvesPerTile;
  if (unit >= batch.units) return;
  const DevicePanel panel = PanelOfUnit(batch, unit);
  const int64_t first_k_tile = panel.column_begin / kTileColumns;
  const int64_t k_tiles =
      (panel.column_begin + panel.columns - 1) / kTileColumns + 1 -
      first_k_tile;
  const int64_t index = unit - panel.first_unit;
  const TileIndex tile = {panel.row_begin / kTileRows + index / k_tiles,
                          first_k_tile + index % k_tiles};
  const LaneHalf owner = {static_cast<int>(thread % kLanesPerTile),
                          static_cast<int>(thread / kLanesPerTile % 2)};
  HalfWords<kCodes> half = {};
  const bool whole = GatherHalf(panel, batch.bytes, tile, owner, half);
  uint8_t* codes = memory + CodesOffset(layout, tile);
#pragma unroll
  for (int word = 0; word < half.kCount; ++word) {
    uint32_t* target =
        reinterpret_cast<uint32_t*>(codes + WordOffset(kCodes, owner, word));
    if (whole) {
      *target = half.words[word];
    } else if (half.words[word] != 0) {
      atomicOr(target, half.words[word]);
    }
  }
}

// A scale of `type`, exactly.
__device__ __forceinline__ float LoadScaleOnDevice(ScaleType type,
                                                   const uint8_t* bytes) {
  switch (type) {
    case ScaleType::kE4m4:
      return ScaleAt(ScaleKind::kE4m4, bytes, 0);
    case ScaleType::kFloat16:
      return ScaleAt(ScaleKind::kFloat16, bytes, 0);
    case ScaleType::kBFloat16:
      return ScaleAt(ScaleKind::kBFloat16, bytes, 0);
    default:
      return ScaleAt(ScaleKind::kFloat32, bytes, 0);
  }
}

// A scale as panels hold it.
struct StoredScale {
  ScaleType type;
  int64_t bytes;
};

__device__ __forceinline__ void CopyScale(const uint8_t* from, int64_t size,
                                          uint8_t* to) {
  if (size == 1) {
    *to = *from;
  } else if (size == 2) {
    *reinterpret_cast<uint16_t*>(to) = *reinterpret_cast<const uint16_t*>(from);
  } else {
    *reinterpret_cast<uint32_t*>(to) = *reinterpret_cast<const uint32_t*>(from);
  }
}

__global__ void __launch_bounds__(kThreads)
    ScatterScales(TileLayout layout, PanelBatch batch, StoredScale scale,
                  uint8_t* memory) {
  const int64_t unit = static_cast<int64_t>(blockIdx.x) * kThreads +
                       static_cast<int64_t>(threadIdx.x);
  if (unit >= batch.units) return;
  const DevicePanel panel = PanelOfUnit(batch, unit);
  const int64_t index = unit - panel.first_unit;
  const int64_t row = panel.row_begin + index / panel.columns;
  const uint8_t* from = batch.bytes + panel.offset + index * scale.bytes;
  if (layout.scale_kind == ScaleKind::kRow) {
    reinterpret_cast<float*>(memory + layout.row_scales_offset)[row] =
        LoadScaleOnDevice(scale.type, from);
    return;
  }
  const int64_t group = panel.column_begin + index % panel.columns;
  const TileIndex tile = {row / kTileRows, group / layout.groups};
  const int place = GroupIndex(layout.groups, static_cast<int>(row % kTileRows),
                               static_cast<int>(group % layout.groups));
  CopyScale(from, scale.bytes,
            memory + ScalesOffset(layout, tile) + place * scale.bytes);
}

__global__ void __launch_bounds__(kThreads)
    ScatterZeros(TileLayout layout, PanelBatch batch, uint8_t* memory) {
  const int64_t unit = static_cast<int64_t>(blockIdx.x) * kThreads +
                       static_cast<int64_t>(threadIdx.x);
  if (unit >= batch.units) return;
  const DevicePanel panel = PanelOfUnit(batch, unit);
  const int64_t index = unit - panel.first_unit;
  const bool repeat = layout.scale_kind == ScaleKind::kRow;
  const int64_t columns = repeat ? layout.k_tiles : panel.columns;
  const int64_t r = index / columns;
  const int64_t c = index % columns;
  const int64_t row = panel.row_begin + r;
  const int64_t group = repeat ? c : panel.column_begin + c;
  const TileIndex tile = {row / kTileRows, group / layout.groups};
  const int place = GroupIndex(layout.groups, static_cast<int>(row % kTileRows),
                               static_cast<int>(group % layout.groups));
  memory[ZerosOffset(layout, tile) + place] =
      batch.bytes[panel.offset + (repeat ? r : index)];
}

constexpr int64_t kMaxBlocks = 1024;

// Runs of scales, one a stage.
struct ScaleRuns {
  const uint8_t* first = nullptr;
  int64_t stride_bytes = 0;
  int64_t run_elements = 0;
  int64_t elements = 0;  // of all runs
};

// E4M4: 4 exponent bits with bias 11 over 4 mantissa bits.
struct E4m4 {
  uint8_t bits;
};

__device__ __forceinline__ float Magnitude(float scale) { return fabsf(scale); }
__device__ __forceinline__ float Magnitude(__half scale) {
  return fabsf(__half2float(scale));
}
__device__ __forceinline__ float Magnitude(__nv_bfloat16 scale) {
  return fabsf(__bfloat162float(scale));
}
__device__ __forceinline__ float Magnitude(E4m4 scale) {
  const int exponent = scale.bits >> 4;
  const int mantissa = scale.bits & 15;
  return exponent == 0 ? ldexpf(mantissa, -14)
                       : ldexpf(16 + mantissa, exponent - 15);
}

template <typename Scale>
__global__ void __launch_bounds__(kThreads)
    LargestScaleKernel(const ScaleRuns runs, unsigned* largest) {
  unsigned mine = 0;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
       i < runs.elements; i += int64_t{gridDim.x} * kThreads) {
    const uint8_t* run = runs.first + i / runs.run_elements * runs.stride_bytes;
    const Scale scale =
        reinterpret_cast<const Scale*>(run)[i % runs.run_elements];
    mine = max(mine, __float_as_uint(Magnitude(scale)));
  }
  mine = __reduce_max_sync(~0u, mine);
  if (threadIdx.x % 32 == 0) atomicMax(largest, mine);
}

template <typename Scale>
void Launch(ScaleRuns runs, unsigned* largest, cudaStream_t stream) {
  const int64_t blocks = (runs.elements + kThreads - 1) / kThreads;
  LargestScaleKernel<Scale>
      <<<static_cast<unsigned>(std::min(blocks, kMaxBlocks)), kThreads, 0,
         stream>>>(runs, largest);
}

ScaleRuns RunsOf(const TiledWeights& weights, int64_t scale_size) {
  const TileLayout& layout = weights.layout;
  if (layout.scale_kind == ScaleKind::kRow) {
    return {reinterpret_cast<const uint8_t*>(weights.row_scales()), 0, layout.n,
            layout.n};
  }
  const int64_t n_tiles = layout.tile_config.n_tiles;
  const int64_t run = n_tiles * layout.scale_bytes / scale_size;
  return {weights.memory + n_tiles * layout.code_bytes, layout.stage_bytes(),
          run, run * layout.k_tiles * layout.tile_config.n_blocks};
}

unsigned Blocks(int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

bool IsLegal(const PanelBatch& batch) {
  return batch.units >= 0 && batch.units <= kMaxUnits;
}

// Calls `start` with TileLayout::codes as a type, for kernels that are compiled
// for it.
template <typename Start>
cudaError_t StartForCodes(int codes, Start start) {
  switch (codes) {
    case kTernaryCodes:
      start(std::integral_constant<int, kTernaryCodes>());
      break;
    case 2:
      start(std::integral_constant<int, 2>());
      break;
    case 3:
      start(std::integral_constant<int, 3>());
      break;
    case 4:
      start(std::integral_constant<int, 4>());
      break;
    case 5:
      start(std::integral_constant<int, 5>());
      break;
    case kNumberCodes:
      start(std::integral_constant<int, kNumberCodes>());
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace

int64_t CodeUnits(const DevicePanel& panel) {
  if (panel.rows < 1 || panel.columns < 1) return 0;
  const int64_t n_tiles = (panel.row_begin + panel.rows - 1) / kTileRows + 1 -
                          panel.row_begin / kTileRows;
  const int64_t k_tiles =
      (panel.column_begin + panel.columns - 1) / kTileColumns + 1 -
      panel.column_begin / kTileColumns;
  return n_tiles * k_tiles;
}

int64_t ScaleUnits(const DevicePanel& panel) {
  return panel.rows * panel.columns;
}

int64_t ZeroUnits(const TileLayout& layout, const DevicePanel& panel) {
  return layout.scale_kind == ScaleKind::kRow ? panel.rows * layout.k_tiles
                                              : panel.rows * panel.columns;
}

cudaError_t LaunchScatterCodes(const TileLayout& layout,
                               const PanelBatch& batch, uint8_t* memory,
                               cudaStream_t stream) {
  if (!IsLegal(batch)) return cudaErrorInvalidValue;
  if (batch.units == 0) return cudaSuccess;
  const unsigned blocks = Blocks(batch.units * kHalvesPerTile);
  return StartForCodes(layout.codes, [&](auto codes_as_type) {
    ScatterCodes<codes_as_type()>
        <<<blocks, kThreads, 0, stream>>>(layout, batch, memory);
  });
}

cudaError_t LaunchScatterScales(const TileLayout& layout,
                                const PanelBatch& batch, ScaleType type,
                                uint8_t* memory, cudaStream_t stream) {
  if (!IsLegal(batch)) return cudaErrorInvalidValue;
  if (batch.units == 0) return cudaSuccess;
  ScatterScales<<<Blocks(batch.units), kThreads, 0, stream>>>(
      layout, batch, StoredScale{type, SizeOf(type)}, memory);
  return cudaGetLastError();
}

cudaError_t LaunchScatterZeros(const TileLayout& layout,
                               const PanelBatch& batch, uint8_t* memory,
                               cudaStream_t stream) {
  if (!IsLegal(batch) || !layout.has_zeros) return cudaErrorInvalidValue;
  if (batch.units == 0) return cudaSuccess;
  ScatterZeros<<<Blocks(batch.units), kThreads, 0, stream>>>(layout, batch,
                                                             memory);
  return cudaGetLastError();
}

cudaError_t LaunchLargestScale(const TiledWeights& weights, float* largest,
                               cudaStream_t stream) {
  const cudaError_t cleared =
      cudaMemsetAsync(largest, 0, sizeof(*largest), stream);
  if (cleared != cudaSuccess) return cleared;
  unsigned* const bits = reinterpret_cast<unsigned*>(largest);
  switch (weights.layout.scale_kind) {
    case ScaleKind::kE4m4:
      Launch<E4m4>(RunsOf(weights, 1), bits, stream);
      break;
    case ScaleKind::kFloat16:
      Launch<__half>(RunsOf(weights, 2), bits, stream);
      break;
    case ScaleKind::kBFloat16:
      Launch<__nv_bfloat16>(RunsOf(weights, 2), bits, stream);
      break;
    case ScaleKind::kFloat32:
    case ScaleKind::kRow:
      Launch<float>(RunsOf(weights, 4), bits, stream);
      break;
  }
  return cudaGetLastError();
}

}  // namespace qgemm::cuda
