// SPDX-License-Identifier: Apache-2.0
//
// Both layouts hold eight input features of all rows in 4 n bytes: GPTQ as
// one word a row, AWQ as eight features of n / 8 words. That is the record
// here; a few of them make a panel, cut by rows to bound it. With act-order
// a panel's columns are regrouped into runs of canonical neighbours.

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "base/status_macros.h"
#include "kernels/formats/int4.h"
#include "kernels/formats/little_endian.h"
#include "kernels/formats/record_stream.h"
#include "kernels/formats/section_decoder.h"

namespace qgemm {
namespace {

// A panel is up to 128 columns wide: one group of the widest fixed size.
constexpr int64_t kMaxRecords = 16;
constexpr int64_t kRecordColumns = 8;

// AWQ's nibbles hold the columns 0 2 4 6 1 3 5 7 of eight; here those columns
// are put in order, one a byte.
uint64_t SpreadAwq(uint32_t word) {
  uint64_t nibbles = SpreadNibbles(word);
  // Bytes a b c d e f g h to a e b f c g d h.
  const uint64_t low = nibbles & 0xffffffffu;
  const uint64_t high = nibbles >> 32;
  const auto widen = [](uint64_t x) {
    x = (x | x << 16) & 0x0000ffff0000ffffu;
    return (x | x << 8) & 0x00ff00ff00ff00ffu;
  };
  return widen(low) | widen(high) << 8;
}

// Swaps byte i of x[j] with byte j of x[i].
void Transpose8x8(std::array<uint64_t, 8>* x) {
  constexpr uint64_t kMasks[] = {0x00000000ffffffffu, 0x0000ffff0000ffffu,
                                 0x00ff00ff00ff00ffu};
  for (int step = 0; step < 3; ++step) {
    const int distance = 4 >> step;
    const int shift = 8 * distance;
    for (int i = 0; i < 8; ++i) {
      if ((i & distance) != 0) continue;
      uint64_t& a = (*x)[i];
      uint64_t& b = (*x)[i + distance];
      const uint64_t swap = (a >> shift ^ b) & kMasks[step];
      a ^= swap << shift;
      b ^= swap;
    }
  }
}

class GptqAwqDecoder final : public SectionDecoder {
 public:
  GptqAwqDecoder(const WeightsSpec& spec, WeightsSink* sink)
      : SectionDecoder(spec, sink),
        awq_(spec.int4_layout == Int4Layout::kAwq),
        scales_(spec.n * SizeOf(spec.scale_type), 1),
        zeros_(spec.n / 2, 1),
        codes_(spec.n * 4, kMaxRecords) {}

 protected:
  absl::Status OnBytes(Section section,
                       absl::Span<const uint8_t> bytes) override;

 private:
  absl::Status WriteScales(int64_t group, const uint8_t* bytes);
  absl::Status WriteZeros(int64_t group, const uint8_t* bytes);
  absl::Status WriteRecords(int64_t first, int64_t count, const uint8_t* bytes);
  // Rows of eight columns each, from a record to its place in `panel`, whose
  // rows are `pitch` codes apart.
  void UnpackRows(const uint8_t* record, int64_t row, int64_t rows,
                  int64_t pitch, uint8_t* panel) const;
  // Hands on `panel_`, whose columns are the input features from `feature` on.
  absl::Status WritePanel(int64_t row, int64_t rows, int64_t feature,
                          int64_t columns);
  absl::Status WriteRuns(int64_t row, int64_t rows, int64_t feature,
                         int64_t columns);
  // Canonical columns of input features; empty if they are the same.
  const std::vector<int32_t>& Positions();

  const bool awq_;
  RecordStream scales_;
  RecordStream zeros_;
  RecordStream codes_;
  std::vector<int32_t> positions_;
  std::vector<uint8_t> panel_;
  std::vector<uint8_t> run_;
};

absl::Status GptqAwqDecoder::OnBytes(Section section,
                                     absl::Span<const uint8_t> bytes) {
  switch (section) {
    case Section::kScales:
      return scales_.Append(bytes,
                            [&](int64_t group, int64_t, const uint8_t* record) {
                              return WriteScales(group, record);
                            });
    case Section::kZeros:
      return zeros_.Append(bytes,
                           [&](int64_t group, int64_t, const uint8_t* record) {
                             return WriteZeros(group, record);
                           });
    default:
      return codes_.Append(
          bytes, [&](int64_t first, int64_t count, const uint8_t* records) {
            return WriteRecords(first, count, records);
          });
  }
}

absl::Status GptqAwqDecoder::WriteScales(int64_t group, const uint8_t* bytes) {
  const size_t size = spec().n * SizeOf(spec().scale_type);
  const GroupPanel panel = {0, spec().n, group, 1, {bytes, size}};
  RETURN_IF_ERROR(CheckScales(panel, spec().scale_type));
  return sink().WriteScales(panel);
}

absl::Status GptqAwqDecoder::WriteZeros(int64_t group, const uint8_t* bytes) {
  const uint64_t offset =
      spec().int4_layout == Int4Layout::kGptqV1 ? 0x0101010101010101u : 0;
  panel_.resize(spec().n);
  for (int64_t row = 0; row < spec().n; row += 8) {
    const uint32_t word = LoadLittle<uint32_t>(bytes + row / 2);
    const uint64_t eight = awq_ ? SpreadAwq(word) : SpreadNibbles(word);
    StoreLittle(eight + offset, &panel_[row]);
  }
  return sink().WriteZeros({0, spec().n, group, 1, panel_});
}

absl::Status GptqAwqDecoder::WriteRecords(int64_t first, int64_t count,
                                          const uint8_t* bytes) {
  const int64_t columns = count * kRecordColumns;
  // A multiple of 8, as AWQ's words need.
  const int64_t panel_rows = kPanelCodes / columns / 8 * 8;
  for (int64_t row = 0; row < spec().n; row += panel_rows) {
    const int64_t rows = std::min(panel_rows, spec().n - row);
    panel_.resize(rows * columns);
    for (int64_t record = 0; record < count; ++record) {
      UnpackRows(bytes + record * spec().n * 4, row, rows, columns,
                 panel_.data() + record * kRecordColumns);
    }
    RETURN_IF_ERROR(WritePanel(row, rows, first * kRecordColumns, columns));
  }
  return absl::OkStatus();
}

void GptqAwqDecoder::UnpackRows(const uint8_t* record, int64_t row,
                                int64_t rows, int64_t pitch,
                                uint8_t* panel) const {
  if (!awq_) {
    for (int64_t i = 0; i < rows; ++i) {
      const uint32_t word = LoadLittle<uint32_t>(record + (row + i) * 4);
      StoreLittle(SpreadNibbles(word), panel + i * pitch);
    }
    return;
  }
  const int64_t feature_bytes = spec().n / 2;
  for (int64_t i = 0; i < rows; i += 8) {
    std::array<uint64_t, 8> eight;
    for (int feature = 0; feature < 8; ++feature) {
      eight[feature] = SpreadAwq(LoadLittle<uint32_t>(
          record + feature * feature_bytes + (row + i) / 2));
    }
    Transpose8x8(&eight);
    for (int j = 0; j < 8; ++j) StoreLittle(eight[j], panel + (i + j) * pitch);
  }
}

absl::Status GptqAwqDecoder::WritePanel(int64_t row, int64_t rows,
                                        int64_t feature, int64_t columns) {
  if (!header().permutation.empty()) {
    return WriteRuns(row, rows, feature, columns);
  }
  return sink().WriteCodes({row, rows, feature, columns, panel_});
}

absl::Status GptqAwqDecoder::WriteRuns(int64_t row, int64_t rows,
                                       int64_t feature, int64_t columns) {
  const int32_t* position = Positions().data() + feature;
  std::vector<int32_t> order(columns);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return position[a] < position[b]; });
  for (int64_t begin = 0, end = 0; begin < columns; begin = end) {
    const int64_t first = position[order[begin]];
    while (end < columns && position[order[end]] == first + end - begin) ++end;
    const int64_t width = end - begin;
    run_.resize(rows * width);
    for (int64_t j = 0; j < width; ++j) {
      const uint8_t* source = panel_.data() + order[begin + j];
      for (int64_t i = 0; i < rows; ++i) {
        run_[i * width + j] = source[i * columns];
      }
    }
    RETURN_IF_ERROR(sink().WriteCodes({row, rows, first, width, run_}));
  }
  return absl::OkStatus();
}

const std::vector<int32_t>& GptqAwqDecoder::Positions() {
  if (positions_.empty()) {
    const std::vector<int32_t>& features = header().permutation;
    positions_.resize(features.size());
    for (size_t j = 0; j < features.size(); ++j) positions_[features[j]] = j;
  }
  return positions_;
}

}  // namespace

std::unique_ptr<WeightsDecoder> NewGptqAwqDecoder(const WeightsSpec& spec,
                                                  WeightsSink* sink) {
  return std::make_unique<GptqAwqDecoder>(spec, sink);
}

}  // namespace qgemm
