// SPDX-License-Identifier: Apache-2.0
//
// A section is either of rows, all of the same whole number of bytes, or of
// the layer (docs/formats.md).

#include "loadtest/workload/rotated_rows.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

absl::Status CheckRowMajor(const WeightsSpec& spec) {
  if (spec.format == WireFormat::kKbit &&
      spec.kbit_layout != KbitLayout::kFlat) {
    return absl::InvalidArgumentError(
        absl::StrCat("rotate rows: kbit layout ", Name(spec.kbit_layout),
                     ": must be ", Name(KbitLayout::kFlat)));
  }
  if (spec.format == WireFormat::kInt4 &&
      spec.int4_layout != Int4Layout::kPlain) {
    return absl::InvalidArgumentError(
        absl::StrCat("rotate rows: int4 layout ", Name(spec.int4_layout),
                     ": must be ", Name(Int4Layout::kPlain)));
  }
  return absl::OkStatus();
}

bool IsOfRows(const WeightsSpec& spec, Section section) {
  switch (section) {
    case Section::kCodebook:
    case Section::kGroupIndex:
      return false;
    case Section::kScales:
      return !spec.tensor_wide_scale;
    case Section::kBias:
    case Section::kZeros:
    case Section::kCodes:
      return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<EncodedWeights> RotateRows(const EncodedWeights& base,
                                          int64_t row_shift) {
  CHECK(row_shift >= 0 && row_shift < base.spec.n) << row_shift;
  RETURN_IF_ERROR(CheckRowMajor(base.spec));
  EncodedWeights rotated;
  rotated.spec = base.spec;
  for (const EncodedWeights::SectionBytes& from : base.sections) {
    const int64_t row_bytes = from.bytes.size() / base.spec.n;
    const int64_t first_byte =
        IsOfRows(base.spec, from.section) ? row_shift * row_bytes : 0;
    rotated.sections.push_back({from.section, {}});
    std::vector<uint8_t>& bytes = rotated.sections.back().bytes;
    bytes.reserve(from.bytes.size());
    bytes.assign(from.bytes.begin() + first_byte, from.bytes.end());
    bytes.insert(bytes.end(), from.bytes.begin(),
                 from.bytes.begin() + first_byte);
  }
  return rotated;
}

}  // namespace qgemm
