// SPDX-License-Identifier: Apache-2.0
//
// Lays rows out in one buffer.

#include "kernels/cpu/prepared_rows.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/cpu/microkernels/code_packing.h"

namespace qgemm::cpu {
namespace {

constexpr int64_t kBudgetBytes = int64_t{64} << 20;
// Rows that are always taken at once.
constexpr int64_t kLeastRows = 64;
// A cache line between rows, so that rows of a power-of-two length do not
// fall on one set of the cache.
constexpr int64_t kRowGap = 16;

// TileArgs::part_rows and part_block.
int64_t PartRows(const RowStrip& strip) {
  const int64_t group = strip.kernel->group;
  return 2 * strip.rows <= group ? strip.rows : group;
}
int64_t PartBlock(const RowStrip& strip) {
  const int64_t rows = PartRows(strip);
  switch (strip.kernel->family) {
    case kFamilyQuantAFloat16:
    case kFamilyScaledAFloat16:
      return 2 * rows * kBlockElements;
    case kFamilyW4A8:  // bytes and an fp32 scale
      return rows * kBlockElements / 2 + rows * 2;
    default:
      return rows * kBlockElements;
  }
}

// Bytes of a strip's rows in parts or packed; 0 of one that is read as it is.
int64_t PlacedBytes(const RowStrip& strip, int64_t blocks) {
  const int64_t columns = blocks * kBlockElements;
  if (strip.reads_packed()) {
    return columns * RoundUp(strip.rows, strip.kernel->group) * 4;
  }
  if (!strip.reads_parts()) return 0;
  return CeilDiv(strip.rows, PartRows(strip)) * blocks * PartBlock(strip) * 2;
}

int64_t PlacedBytes(absl::Span<const RowStrip> strips, int64_t blocks) {
  int64_t bytes = 0;
  for (const RowStrip& strip : strips) bytes += PlacedBytes(strip, blocks);
  return bytes;
}

}  // namespace

// Bytes of each part of a row.
struct PreparedRows::Strides {
  int64_t blocks;
  int64_t float_stride;
  int64_t block_stride;
  bool scratch;
  bool quantized;

  int64_t BytesPerRow() const {
    const int64_t floats = float_stride * 4 * (scratch ? 2 : 1);
    const int64_t integers = quantized ? float_stride + block_stride * 8 : 0;
    return floats + integers + 8;
  }
};

PreparedRows::Strides PreparedRows::StridesOf(const RowSource& source) {
  Strides strides;
  strides.blocks = CeilDiv(source.k, kBlockElements);
  strides.float_stride = RoundUp(strides.blocks * kBlockElements, 64) + kRowGap;
  strides.block_stride = RoundUp(strides.blocks, 16);
  strides.scratch = !source.permutation.empty();
  strides.quantized = source.signature.mode == ComputeMode::kA8;
  return strides;
}

int64_t PreparedRows::RowsThatFit(const RowSource& source) {
  // Parts of a row, and a row packed, are as large as its floats at most, but
  // for what pads the last group. Rows of more than some 16,000 elements are
  // fewer than kMaxMr at a time.
  const Strides strides = StridesOf(source);
  const int64_t rows =
      kBudgetBytes / (strides.BytesPerRow() + strides.float_stride * 4);
  if (rows >= kMaxMr) return rows / kMaxMr * kMaxMr;
  return std::max<int64_t>(rows / kLeastRows, 1) * kLeastRows;
}

absl::Status PreparedRows::Reset(const RowSource& source,
                                 absl::Span<const RowStrip> strips, int bits) {
  const Strides strides = StridesOf(source);
  const int64_t rows = strips.back().first + strips.back().rows;
  const int64_t placed_bytes = PlacedBytes(strips, strides.blocks);
  const int64_t bytes = placed_bytes + rows * strides.BytesPerRow();
  if (bytes > memory_.held_bytes()) {
    memory_ = AlignedMemory();
    ASSIGN_OR_RETURN(memory_, AlignedMemory::Allocate(bytes));
  }
  source_ = &source;
  blocks_ = strides.blocks;
  float_stride_ = strides.float_stride;
  block_stride_ = strides.block_stride;
  places_.assign(rows, RowPlace());
  lacks_parts_.assign(rows, 0);
  groups_.clear();
  PlaceRows(strips);
  if (placed_bytes > 0) OrderElements(bits);
  // Widest elements first, so that each array is aligned to its own.
  uint8_t* next = memory_.data() + placed_bytes;
  const auto take = [&next](int64_t part_bytes) {
    uint8_t* part = next;
    next += part_bytes;
    return part;
  };
  floats_ = reinterpret_cast<float*>(take(rows * float_stride_ * 4));
  scratch_ = strides.scratch
                 ? reinterpret_cast<float*>(take(rows * float_stride_ * 4))
                 : nullptr;
  factors_ = reinterpret_cast<double*>(take(rows * 8));
  if (!strides.quantized) return absl::OkStatus();
  d8_ = reinterpret_cast<float*>(take(rows * block_stride_ * 4));
  q8_sum_ = reinterpret_cast<int32_t*>(take(rows * block_stride_ * 4));
  q8_ = reinterpret_cast<int8_t*>(take(rows * float_stride_));
  return absl::OkStatus();
}

void PreparedRows::PlaceRows(absl::Span<const RowStrip> strips) {
  uint8_t* next = memory_.data();
  for (const RowStrip& strip : strips) {
    if (strip.reads_parts()) next = PlaceParts(strip, next);
    if (strip.reads_packed()) next = PlacePacked(strip, next);
    const int64_t group = strip.reads_packed() ? strip.kernel->group : 1;
    for (int64_t i = 0; i < strip.rows; i += group) {
      groups_.push_back({strip.first + i, std::min(group, strip.rows - i)});
    }
  }
}

// Both return where the next strip's rows start.
uint8_t* PreparedRows::PlaceParts(const RowStrip& strip, uint8_t* next) {
  const int64_t part_rows = PartRows(strip);
  const int64_t part_block = PartBlock(strip);
  uint16_t* parts = reinterpret_cast<uint16_t*>(next);
  for (int64_t i = 0; i < strip.rows; ++i) {
    uint16_t* group = parts + i / part_rows * blocks_ * part_block;
    RowPlace& place = places_[strip.first + i];
    place.high = group + i % part_rows * kBlockElements;
    place.part_rows = part_rows;
    place.part_block = part_block;
    switch (strip.kernel->family) {
      case kFamilyQuantAFloat16:
      case kFamilyScaledAFloat16:
        place.low = place.high + part_rows * kBlockElements;
        break;
      case kFamilyW4A8: {
        constexpr int kHalves = kBlockElements / 2;
        uint16_t* const behind = group + part_rows * kHalves;
        place.high = group + i % part_rows * kHalves;
        place.d8 = reinterpret_cast<float*>(behind) + i % part_rows;
        break;
      }
    }
  }
  return next + PlacedBytes(strip, blocks_);
}

uint8_t* PreparedRows::PlacePacked(const RowStrip& strip, uint8_t* next) {
  const int64_t group = strip.kernel->group;
  for (int64_t i = 0; i < strip.rows; ++i) {
    const int64_t first = i / group * group;  // of the row's group
    RowPlace& place = places_[strip.first + i];
    place.packed = reinterpret_cast<float*>(next) +
                   first * blocks_ * kBlockElements + (i - first);
    place.stride = group;
  }
  return next + PlacedBytes(strip, blocks_);
}

void PreparedRows::OrderElements(int bits) {
  for (int k = 0; k < kBlockElements; ++k) {
    const PairPlace place =
        bits == 0 ? PairPlace{k / 2, k % 2} : PlaceInPairs(bits, k);
    // The high half of element k, of a block taken as halves.
    pick_[2 * place.pair + place.half] = static_cast<uint16_t>(2 * k + 1);
    order_[kBlockElements / 2 * place.half + place.pair] =
        static_cast<uint16_t>(k);
  }
}

void PreparedRows::Prepare(
    const Group& group,
    absl::FunctionRef<const uint8_t*(int64_t row)> elements) {
  for (int64_t i = 0; i < group.rows; ++i) {
    PrepareOne(group.first + i, elements(group.first + i));
  }
  if (places_[group.first].packed != nullptr) Pack(group);
}

void PreparedRows::PrepareOne(int64_t row, const uint8_t* elements) {
  float* target = floats_ + row * float_stride_;
  float* scratch =
      scratch_ == nullptr ? nullptr : scratch_ + row * float_stride_;
  factors_[row] =
      PrepareRow(*source_, elements, blocks_ * kBlockElements, scratch, target);
  const RowPlace& place = places_[row];
  if (source_->signature.mode != ComputeMode::kA8) {
    if (place.high == nullptr) return;
    lacks_parts_[row] =
        AllFinite({target, static_cast<size_t>(source_->k)}) ? 0 : 1;
    return Split(place, target);
  }
  QuantizeRow(target, blocks_,
              {q8_ + row * float_stride_, d8_ + row * block_stride_,
               q8_sum_ + row * block_stride_});
  if (place.high != nullptr) CopyQuantized(place, row);
}

void PreparedRows::Split(const RowPlace& place, const float* floats) const {
  const RowParts parts = {floats,           blocks_,    pick_,
                          place.part_block, place.high, place.low};
  split_row_(&parts);
}

void PreparedRows::CopyQuantized(const RowPlace& place, int64_t row) const {
  const int8_t* q8 = q8_ + row * float_stride_;
  const float* d8 = d8_ + row * block_stride_;
  for (int64_t block = 0; block < blocks_; ++block) {
    std::memcpy(place.high + block * place.part_block,
                q8 + block * kBlockElements, kBlockElements);
    place.d8[block * place.part_block / 2] = d8[block];
  }
}

// Element by element, so that the memory is written in its order.
void PreparedRows::Pack(const Group& group) const {
  const RowPlace& place = places_[group.first];
  const float* floats = floats_ + group.first * float_stride_;
  float* to = place.packed;
  for (int64_t block = 0; block < blocks_; ++block) {
    for (int i = 0; i < kBlockElements; ++i, to += place.stride) {
      for (int64_t r = 0; r < group.rows; ++r) {
        to[r] = floats[r * float_stride_ + order_[i]];
      }
    }
    floats += kBlockElements;
  }
}

void PreparedRows::SetArgs(const RowStrip& strip, TileArgs& args) const {
  SetArgsOfRow(strip.first, args);
  const RowPlace& place = places_[strip.first];
  args.rows = static_cast<int>(strip.rows);
  args.packed = place.packed;
  args.parts = place.high;
  args.part_rows = place.part_rows;
  args.part_block = place.part_block;
}

void PreparedRows::SetArgsOfRow(int64_t row, TileArgs& args) const {
  args.a = floats_ + row * float_stride_;
  args.a_stride = float_stride_;
  if (source_->signature.mode != ComputeMode::kA8) return;
  args.q8 = q8_ + row * float_stride_;
  args.d8 = d8_ + row * block_stride_;
  args.q8_sum = q8_sum_ + row * block_stride_;
  args.q8_stride = float_stride_;
  args.d8_stride = block_stride_;
}

}  // namespace qgemm::cpu
