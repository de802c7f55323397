// SPDX-License-Identifier: Apache-2.0
//
// Eight codes a step.

#include "kernels/formats/int4.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/formats/little_endian.h"
#include "kernels/formats/record_stream.h"
#include "kernels/formats/section_decoder.h"

namespace qgemm {
namespace {

void UnpackRow(const uint8_t* bytes, int64_t k, uint8_t* codes) {
  int64_t column = 0;
  for (; column + 8 <= k; column += 8) {
    StoreLittle(SpreadNibbles(LoadLittle<uint32_t>(bytes + column / 2)),
                codes + column);
  }
  for (; column < k; ++column) {
    codes[column] = bytes[column / 2] >> (4 * (column % 2)) & 15;
  }
}

class Int4PlainDecoder final : public SectionDecoder {
 public:
  Int4PlainDecoder(const WeightsSpec& spec, WeightsSink* sink)
      : SectionDecoder(spec, sink),
        groups_(header().groups_per_row()),
        scales_(groups_ * SizeOf(spec.scale_type)),
        zeros_(groups_),
        rows_(CeilDiv(spec.k, 2), PanelRows(spec.k)) {}

 protected:
  absl::Status OnBytes(Section section,
                       absl::Span<const uint8_t> bytes) override;

 private:
  absl::Status WriteScales(int64_t row, int64_t rows, const uint8_t* bytes);
  absl::Status WriteZeros(int64_t row, int64_t rows, const uint8_t* bytes);
  absl::Status WriteRows(int64_t row, int64_t rows, const uint8_t* bytes);

  const int64_t groups_;  // a row
  RecordStream scales_;
  RecordStream zeros_;
  RecordStream rows_;
  std::vector<uint8_t> panel_;
};

absl::Status Int4PlainDecoder::OnBytes(Section section,
                                       absl::Span<const uint8_t> bytes) {
  switch (section) {
    case Section::kScales:
      return scales_.Append(
          bytes, [&](int64_t row, int64_t rows, const uint8_t* records) {
            return WriteScales(row, rows, records);
          });
    case Section::kZeros:
      return zeros_.Append(
          bytes, [&](int64_t row, int64_t rows, const uint8_t* records) {
            return WriteZeros(row, rows, records);
          });
    default:
      return rows_.Append(
          bytes, [&](int64_t row, int64_t rows, const uint8_t* records) {
            return WriteRows(row, rows, records);
          });
  }
}

absl::Status Int4PlainDecoder::WriteScales(int64_t row, int64_t rows,
                                           const uint8_t* bytes) {
  const size_t size = rows * groups_ * SizeOf(spec().scale_type);
  const GroupPanel panel = {row, rows, 0, groups_, {bytes, size}};
  RETURN_IF_ERROR(CheckScales(panel, spec().scale_type));
  return sink().WriteScales(panel);
}

absl::Status Int4PlainDecoder::WriteZeros(int64_t row, int64_t rows,
                                          const uint8_t* bytes) {
  for (int64_t i = 0; i < rows * groups_; ++i) {
    if (bytes[i] > 15) {
      return absl::InvalidArgumentError(absl::StrCat(
          "zeros: row ", row + i / groups_, ", group ", i % groups_, " = ",
          static_cast<int>(bytes[i]), ": must be 0 to 15"));
    }
  }
  return sink().WriteZeros(
      {row, rows, 0, groups_, {bytes, static_cast<size_t>(rows * groups_)}});
}

absl::Status Int4PlainDecoder::WriteRows(int64_t row, int64_t rows,
                                         const uint8_t* bytes) {
  const int64_t k = spec().k;
  panel_.resize(rows * k);
  for (int64_t i = 0; i < rows; ++i) {
    UnpackRow(bytes + i * CeilDiv(k, 2), k, panel_.data() + i * k);
  }
  return sink().WriteCodes({row, rows, 0, k, panel_});
}

}  // namespace

void PackInt4Row(const uint8_t* codes, int64_t k, uint8_t* bytes) {
  for (int64_t column = 0; column + 1 < k; column += 2) {
    bytes[column / 2] = codes[column] | codes[column + 1] << 4;
  }
  if (k % 2 != 0) bytes[k / 2] = codes[k - 1];
}

std::unique_ptr<WeightsDecoder> NewInt4PlainDecoder(const WeightsSpec& spec,
                                                    WeightsSink* sink) {
  return std::make_unique<Int4PlainDecoder>(spec, sink);
}

}  // namespace qgemm
