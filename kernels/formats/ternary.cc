// SPDX-License-Identifier: Apache-2.0
//
// One byte or one table look-up of four codes at a time; codes are checked
// after a row is unpacked.

#include "kernels/formats/ternary.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/formats/little_endian.h"
#include "kernels/formats/record_stream.h"
#include "kernels/formats/section_decoder.h"

namespace qgemm {
namespace {

constexpr int64_t kScaleBytes = 4;

// Stored values of the codes 0, 1, 2.
int StoredOffset(TernaryCoding coding) {
  return coding == TernaryCoding::kPacked123 ? 1 : 0;
}

// The four canonical codes of every packed byte. Illegal ones come out above
// 2, by wrapping if need be.
std::array<uint32_t, 256> MakeUnpackTable(TernaryCoding coding) {
  std::array<uint32_t, 256> table{};
  for (int byte = 0; byte < 256; ++byte) {
    for (int i = 0; i < 4; ++i) {
      const int code = (byte >> (2 * i) & 3) - StoredOffset(coding);
      table[byte] |= static_cast<uint32_t>(code & 0xff) << (8 * i);
    }
  }
  return table;
}

class TernaryDecoder final : public SectionDecoder {
 public:
  TernaryDecoder(const WeightsSpec& spec, WeightsSink* sink)
      : SectionDecoder(spec, sink),
        unpack_(MakeUnpackTable(spec.ternary_coding)),
        row_bytes_(TernaryRowBytes(spec.ternary_coding, spec.k)),
        scales_(kScaleBytes),
        rows_(row_bytes_, PanelRows(spec.k)) {}

 protected:
  absl::Status OnBytes(Section section,
                       absl::Span<const uint8_t> bytes) override;

 private:
  absl::Status WriteScales(int64_t row, int64_t rows, const uint8_t* bytes);
  absl::Status WriteTensorScale(const uint8_t* bytes);
  absl::Status WriteRows(int64_t row, int64_t rows, const uint8_t* bytes);
  void UnpackRow(const uint8_t* bytes, uint8_t* codes) const;
  absl::Status CheckRow(int64_t row, const uint8_t* codes) const;

  const std::array<uint32_t, 256> unpack_;
  const int64_t row_bytes_;
  RecordStream scales_;
  RecordStream rows_;
  std::vector<uint8_t> panel_;
};

absl::Status TernaryDecoder::OnBytes(Section section,
                                     absl::Span<const uint8_t> bytes) {
  if (section == Section::kScales) {
    return scales_.Append(
        bytes, [&](int64_t row, int64_t rows, const uint8_t* records) {
          return spec().tensor_wide_scale ? WriteTensorScale(records)
                                          : WriteScales(row, rows, records);
        });
  }
  return rows_.Append(bytes,
                      [&](int64_t row, int64_t rows, const uint8_t* records) {
                        return WriteRows(row, rows, records);
                      });
}

absl::Status TernaryDecoder::WriteScales(int64_t row, int64_t rows,
                                         const uint8_t* bytes) {
  const GroupPanel panel = {
      row, rows, 0, 1, {bytes, static_cast<size_t>(rows * kScaleBytes)}};
  RETURN_IF_ERROR(CheckScales(panel, ScaleType::kFloat32));
  return sink().WriteScales(panel);
}

absl::Status TernaryDecoder::WriteTensorScale(const uint8_t* bytes) {
  std::vector<uint8_t> copies;
  const int64_t panel_rows = std::min<int64_t>(spec().n, 4096);
  for (int64_t row = 0; row < panel_rows; ++row) {
    copies.insert(copies.end(), bytes, bytes + kScaleBytes);
  }
  for (int64_t row = 0; row < spec().n; row += panel_rows) {
    RETURN_IF_ERROR(
        WriteScales(row, std::min(panel_rows, spec().n - row), copies.data()));
  }
  return absl::OkStatus();
}

absl::Status TernaryDecoder::WriteRows(int64_t row, int64_t rows,
                                       const uint8_t* bytes) {
  const int64_t k = spec().k;
  panel_.resize(rows * k);
  for (int64_t i = 0; i < rows; ++i) {
    uint8_t* codes = panel_.data() + i * k;
    UnpackRow(bytes + i * row_bytes_, codes);
    RETURN_IF_ERROR(CheckRow(row + i, codes));
  }
  return sink().WriteCodes({row, rows, 0, k, panel_});
}

void TernaryDecoder::UnpackRow(const uint8_t* bytes, uint8_t* codes) const {
  const int64_t k = spec().k;
  if (spec().ternary_coding == TernaryCoding::kInt8) {
    for (int64_t i = 0; i < k; ++i) codes[i] = bytes[i] + 1;
    return;
  }
  const int64_t whole = k / 4;
  for (int64_t i = 0; i < whole; ++i) {
    StoreLittle(unpack_[bytes[i]], codes + 4 * i);
  }
  for (int64_t i = 4 * whole; i < k; ++i) {
    codes[i] = unpack_[bytes[whole]] >> (8 * (i - 4 * whole)) & 0xff;
  }
}

absl::Status TernaryDecoder::CheckRow(int64_t row, const uint8_t* codes) const {
  const int64_t k = spec().k;
  uint8_t illegal = 0;
  for (int64_t i = 0; i < k; ++i) illegal |= codes[i] > 2;
  if (illegal == 0) return absl::OkStatus();
  const int64_t column =
      std::find_if(codes, codes + k, [](uint8_t code) { return code > 2; }) -
      codes;
  const bool int8 = spec().ternary_coding == TernaryCoding::kInt8;
  const int stored =
      int8 ? static_cast<int8_t>(codes[column] - 1)
           : (codes[column] + StoredOffset(spec().ternary_coding)) & 3;
  const absl::string_view legal = int8 ? "-1, 0 or 1"
                                  : StoredOffset(spec().ternary_coding) == 0
                                      ? "0, 1 or 2"
                                      : "1, 2 or 3";
  return absl::InvalidArgumentError(absl::StrCat("codes: row ", row,
                                                 ", column ", column, " = ",
                                                 stored, ": must be ", legal));
}

}  // namespace

int64_t TernaryRowBytes(TernaryCoding coding, int64_t k) {
  return coding == TernaryCoding::kInt8 ? k : CeilDiv(k, 4);
}

void PackTernaryRow(TernaryCoding coding, const uint8_t* codes, int64_t k,
                    uint8_t* bytes) {
  if (coding == TernaryCoding::kInt8) {
    for (int64_t i = 0; i < k; ++i) bytes[i] = codes[i] - 1;
    return;
  }
  std::fill_n(bytes, TernaryRowBytes(coding, k), 0);
  for (int64_t i = 0; i < k; ++i) {
    bytes[i / 4] |= (codes[i] + StoredOffset(coding)) << (2 * (i % 4));
  }
}

std::unique_ptr<WeightsDecoder> NewTernaryDecoder(const WeightsSpec& spec,
                                                  WeightsSink* sink) {
  return std::make_unique<TernaryDecoder>(spec, sink);
}

}  // namespace qgemm
