// SPDX-License-Identifier: Apache-2.0
//
// A half of a lane's words is one thread's work: it gathers up to 32 codes
// and stores its words if the panel holds them all, else merges them.

#include "kernels/cuda/device/tile_codes.cuh"
#include "kernels/cuda/launch/repack.h"
#include "kernels/cuda/tuning/tile_address.h"

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
        panel, bytes, tile.row_tile * kTileRows + RowOfCode(place),
        tile.column_tile * kTileColumns + ColumnOfCode(place));
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
  const int64_t first_column_tile = panel.column_begin / kTileColumns;
  const int64_t column_tiles =
      (panel.column_begin + panel.columns - 1) / kTileColumns + 1 -
      first_column_tile;
  const int64_t index = unit - panel.first_unit;
  const TileIndex tile = {panel.row_begin / kTileRows + index / column_tiles,
                          first_column_tile + index % column_tiles};
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

template <int kCodes>
__global__ void __launch_bounds__(kThreads)
    UnpackCodes(TiledWeights weights, uint8_t* codes) {
  const TileLayout& layout = weights.layout;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads +
                         static_cast<int64_t>(threadIdx.x);
  const int64_t unit = thread / kHalvesPerTile;
  const TileIndex tile = {unit / layout.column_tiles,
                          unit % layout.column_tiles};
  if (tile.row_tile * kTileRows >= layout.n) return;
  const LaneHalf owner = {static_cast<int>(thread % kLanesPerTile),
                          static_cast<int>(thread / kLanesPerTile % 2)};
  const HalfWords<kCodes> half =
      LoadHalf<kCodes>(weights.memory + CodesOffset(layout, tile), owner);
#pragma unroll
  for (int i = 0; i < 2 * kPairsPerHalf; ++i) {
    const CodePlace place = {owner, i >> 1, i & 1};
    const int64_t row = tile.row_tile * kTileRows + RowOfCode(place);
    const int64_t column =
        tile.column_tile * kTileColumns + ColumnOfCode(place);
    if (row < layout.n && column < layout.k) {
      codes[row * layout.k + column] =
          static_cast<uint8_t>(CodeIn(kCodes, i >> 1, i & 1, half.words));
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
  const int64_t columns = repeat ? layout.column_tiles : panel.columns;
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
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace

int64_t CodeUnits(const DevicePanel& panel) {
  if (panel.rows < 1 || panel.columns < 1) return 0;
  const int64_t row_tiles = (panel.row_begin + panel.rows - 1) / kTileRows + 1 -
                            panel.row_begin / kTileRows;
  const int64_t column_tiles =
      (panel.column_begin + panel.columns - 1) / kTileColumns + 1 -
      panel.column_begin / kTileColumns;
  return row_tiles * column_tiles;
}

int64_t ScaleUnits(const DevicePanel& panel) {
  return panel.rows * panel.columns;
}

int64_t ZeroUnits(const TileLayout& layout, const DevicePanel& panel) {
  return layout.scale_kind == ScaleKind::kRow ? panel.rows * layout.column_tiles
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

cudaError_t LaunchUnpackCodes(const TiledWeights& weights, uint8_t* codes,
                              cudaStream_t stream) {
  const TileLayout& layout = weights.layout;
  const int64_t row_tiles = (layout.n + kTileRows - 1) / kTileRows;
  const int64_t tiles = row_tiles * layout.column_tiles;
  if (tiles > kMaxUnits) return cudaErrorInvalidValue;
  const unsigned blocks = Blocks(tiles * kHalvesPerTile);
  return StartForCodes(layout.codes, [&](auto codes_as_type) {
    UnpackCodes<codes_as_type()>
        <<<blocks, kThreads, 0, stream>>>(weights, codes);
  });
}

}  // namespace qgemm::cuda
