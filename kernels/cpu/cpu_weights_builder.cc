// SPDX-License-Identifier: Apache-2.0
//
// Scatters panels into tiles: whole rows of blocks at once, the ragged edges
// of a panel code by code.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/checked_math.h"
#include "base/float16.h"
#include "base/memory_checksum.h"
#include "base/status_macros.h"
#include "kernels/cpu/cpu_weights.h"
#include "kernels/cpu/microkernels/code_packing.h"
#include "kernels/host/batch_checks.h"

namespace qgemm::cpu {
namespace {

// True if the codes are 4-bit integers that stand for themselves.
bool IsIdentity(const WeightsHeader& header) {
  if (!header.integer_codes || header.bits != 4) return false;
  for (size_t i = 0; i < header.codebook.size(); ++i) {
    if (header.codebook[i] != static_cast<float>(i)) return false;
  }
  return true;
}

// e such that all magnitudes are at most 2^e; 0 for a codebook of zeros, and
// for whole numbers, which stay whole.
int ExponentOf(const WeightsHeader& header) {
  float largest = 0;
  if (header.integer_codes) return 0;
  for (float value : header.codebook) {
    largest = std::max(largest, std::fabs(value));
  }
  int exponent = 0;
  std::frexp(largest, &exponent);
  return exponent;
}

void SetParts(const std::array<float, 32>& entries, CpuTables& tables) {
  for (int i = 0; i < 32; ++i) {
    tables.high[i] = FloatToBFloat16(entries[i]);
    const float rest = entries[i] - BFloat16ToFloat(tables.high[i]);
    tables.low[i] = FloatToBFloat16(rest);
    tables.has_low |= rest != 0;
  }
}

// To 16 significant bits, the nearest, so that the lowest byte is zero.
float RoundEntry(float entry) {
  const uint32_t bits = FloatBits(entry);
  return FloatFromBits((bits + 0x7f + (bits >> 8 & 1)) & ~uint32_t{0xff});
}

// The tables of a layer whose codebook is to be divided by 2^exponent.
CpuTables TablesOf(const WeightsHeader& header, int exponent) {
  const int entries = 1 << header.bits;
  CpuTables tables;
  for (int i = 0; i < 32; ++i) {
    const float entry = std::ldexp(header.codebook[i % entries], -exponent);
    tables.entries[i] = RoundEntry(entry);
    tables.rounded[i] = RoundTo(FloatType::kBFloat16, entry);
  }
  std::array<float, 32> picked = tables.entries;
  for (int i = 0; i < 32 && header.has_zeros; ++i) {
    picked[i] = std::ldexp(static_cast<float>(i < 16 ? i : i - 32), -exponent);
  }
  SetParts(picked, tables);
  return tables;
}

// True if all of these scales are (CpuWeightsParts). E4M4 and fp16 hold no
// others.
bool AreModerate(ScaleType type, absl::Span<const uint8_t> bytes) {
  if (type != ScaleType::kBFloat16 && type != ScaleType::kFloat32) return true;
  const int64_t size = SizeOf(type);
  const int64_t count = bytes.size() / size;
  for (int64_t i = 0; i < count; ++i) {
    const float scale = std::fabs(LoadScale(type, &bytes[i * size]));
    if (scale != 0 && (scale < 0x1p-64f || scale > 0x1p32f)) return false;
  }
  return true;
}

}  // namespace

absl::Status TakeMemory(const CpuWeightsMemory& memory,
                        CpuWeightsParts* parts) {
  const int64_t bytes = parts->layout.total_bytes;
  const int64_t held_bytes = AlignedMemory::HeldBytes(bytes);
  ASSIGN_OR_RETURN(parts->reservation, memory.budget->Reserve(held_bytes));
  if (memory.arena == nullptr) {
    ASSIGN_OR_RETURN(AlignedMemory own, AlignedMemory::Allocate(bytes));
    parts->memory = LayerMemory<AlignedMemory>(std::move(own));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(ArenaPlace place, memory.arena->Allocate(held_bytes));
  std::memset(place.data(), 0, held_bytes);
  parts->memory = LayerMemory<AlignedMemory>(std::move(place));
  return absl::OkStatus();
}

absl::Status CpuWeightsBuilder::Begin(const WeightsHeader& header) {
  CHECK(parts_.memory.data() == nullptr) << "Begin comes once";
  parts_.shape = header;
  RETURN_IF_ERROR(CheckLayerLimits(parts_.shape, limits_));
  ASSIGN_OR_RETURN(parts_.layout, LayoutOf(parts_.shape));
  RETURN_IF_ERROR(TakeMemory(memory_, &parts_));
  if (!parts_.shape.dense) SetCodebook(header);
  uint8_t* base = parts_.memory.data();
  std::copy(header.bias.begin(), header.bias.end(),
            reinterpret_cast<float*>(base + parts_.layout.bias_offset));
  std::copy(
      header.permutation.begin(), header.permutation.end(),
      reinterpret_cast<int32_t*>(base + parts_.layout.permutation_offset));
  return absl::OkStatus();
}

void CpuWeightsBuilder::SetCodebook(const WeightsHeader& header) {
  CHECK_EQ(static_cast<int>(header.codebook.size()), 1 << header.bits);
  parts_.small_differences = IsIdentity(header);
  const int exponent = ExponentOf(header);
  parts_.tables = TablesOf(header, exponent);
  parts_.zero_unit = std::ldexp(1.0f, -exponent);
  // Microkernels read an E4M4 scale as a sixteenth of it.
  const double unit = header.scale_type == ScaleType::kE4m4 ? 16 : 1;
  parts_.float_factor = std::ldexp(unit, exponent);
  parts_.integer_factor = unit;
}

absl::Status CpuWeightsBuilder::WriteCodes(const CodePanel& panel) {
  CHECK(panel.row_begin >= 0 && panel.row_begin + panel.rows <= parts_.shape.n);
  CHECK(panel.k_begin >= 0 && panel.k_begin + panel.columns <= parts_.shape.k);
  CHECK_EQ(static_cast<int64_t>(panel.codes.size()),
           panel.rows * panel.columns);
  const int64_t end = panel.row_begin + panel.rows;
  for (int64_t row = panel.row_begin; row < end;) {
    const int64_t rows = std::min(end, RoundUp(row + 1, kTileRows)) - row;
    WriteTileCodes(panel, row, rows);
    row += rows;
  }
  return absl::OkStatus();
}

void CpuWeightsBuilder::WriteTileCodes(const CodePanel& panel, int64_t row,
                                       int64_t rows) {
  const int bits = parts_.shape.bits;
  uint8_t* tile = parts_.memory.data() + parts_.layout.codes_offset +
                  row / kTileRows * parts_.layout.tile_code_bytes;
  const uint8_t* codes =
      panel.codes.data() + (row - panel.row_begin) * panel.columns;
  const int first_lane = row % kTileRows;
  const int64_t end = panel.k_begin + panel.columns;
  for (int64_t k = panel.k_begin; k < end;) {
    const int64_t next = std::min(end, RoundUp(k + 1, kBlockElements));
    uint8_t* block = tile + k / kBlockElements * BlockBytes(bits);
    const uint8_t* from = codes + (k - panel.k_begin);
    for (int64_t r = 0; r < rows; ++r, from += panel.columns) {
      if (next - k == kBlockElements) {
        PackBlockRow(bits, from, first_lane + r, block);
        continue;
      }
      for (int64_t i = k; i < next; ++i) {
        PackCode(bits, from[i - k], i % kBlockElements, first_lane + r, block);
      }
    }
    k = next;
  }
}

void CpuWeightsBuilder::WriteGroups(const GroupPanel& panel, int64_t size,
                                    uint8_t* target) {
  CHECK(panel.row_begin >= 0 && panel.row_begin + panel.rows <= parts_.shape.n);
  CHECK(panel.group_begin >= 0 &&
        panel.group_begin + panel.groups <= parts_.layout.groups);
  CHECK_EQ(static_cast<int64_t>(panel.bytes.size()),
           panel.rows * panel.groups * size);
  const uint8_t* from = panel.bytes.data();
  for (int64_t r = 0; r < panel.rows; ++r) {
    const int64_t row = panel.row_begin + r;
    uint8_t* to = target +
                  (row / kTileRows * parts_.layout.groups + panel.group_begin) *
                      kTileRows * size +
                  row % kTileRows * size;
    for (int64_t g = 0; g < panel.groups; ++g) {
      std::memcpy(to, from, size);
      from += size;
      to += kTileRows * size;
    }
  }
}

absl::Status CpuWeightsBuilder::WriteScales(const GroupPanel& panel) {
  parts_.moderate_scales &= AreModerate(parts_.shape.scale_type, panel.bytes);
  WriteGroups(panel, SizeOf(parts_.shape.scale_type),
              parts_.memory.data() + parts_.layout.scales_offset);
  return absl::OkStatus();
}

absl::Status CpuWeightsBuilder::WriteZeros(const GroupPanel& panel) {
  CHECK(parts_.shape.has_zeros);
  for (const uint8_t zero : panel.bytes) {
    if (zero > 16) parts_.small_differences = false;
  }
  WriteGroups(panel, 1, parts_.memory.data() + parts_.layout.zeros_offset);
  return absl::OkStatus();
}

absl::Status CpuWeightsBuilder::WriteDense(const DensePanel& panel) {
  CHECK(parts_.shape.dense);
  CHECK(panel.row_begin >= 0 && panel.row_begin + panel.rows <= parts_.shape.n);
  CHECK_EQ(static_cast<int64_t>(panel.bytes.size()),
           panel.rows * parts_.shape.k * 2);
  const uint8_t* from = panel.bytes.data();
  for (int64_t r = 0; r < panel.rows; ++r) {
    const int64_t row = panel.row_begin + r;
    uint8_t* to = parts_.memory.data() + parts_.layout.codes_offset +
                  row / kTileRows * parts_.layout.tile_code_bytes +
                  row % kTileRows * 2;
    for (int64_t k = 0; k < parts_.shape.k; ++k) {
      std::memcpy(to + k * kTileRows * 2, from, 2);
      from += 2;
    }
  }
  return absl::OkStatus();
}

absl::Status CpuWeightsBuilder::SetTensorScale(float tensor_scale) {
  parts_.float_factor *= tensor_scale;
  parts_.integer_factor *= tensor_scale;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const ResidentWeights>>
CpuWeightsBuilder::Finish() {
  CHECK(parts_.memory.data() != nullptr) << "Finish comes once, after Begin";
  if (!parts_.memory.place().is_null()) {
    parts_.checksum =
        MemoryChecksum(parts_.memory.data(), parts_.memory.size_bytes());
  }
  std::shared_ptr<const ResidentWeights> weights =
      std::make_shared<CpuWeights>(std::move(parts_));
  parts_ = CpuWeightsParts();
  return weights;
}

}  // namespace qgemm::cpu
