// SPDX-License-Identifier: Apache-2.0
//
// The state machine over sections.

#include "kernels/formats/section_decoder.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

template <typename T>
std::vector<T> As(const std::vector<uint8_t>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

bool IsMetadata(Section section) { return section < Section::kScales; }

}  // namespace

absl::Status CheckFinite(absl::Span<const float> values,
                         absl::string_view what) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, "[", i, "] = ", values[i], ": must be finite"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckScales(const GroupPanel& panel, ScaleType type) {
  const int64_t size = SizeOf(type);
  for (int64_t i = 0; i < panel.rows * panel.groups; ++i) {
    const float scale = LoadScale(type, panel.bytes.data() + i * size);
    if (!std::isfinite(scale)) {
      return absl::InvalidArgumentError(
          absl::StrCat("scales: row ", panel.row_begin + i / panel.groups,
                       ", group ", panel.group_begin + i % panel.groups, " = ",
                       scale, ": must be finite"));
    }
  }
  return absl::OkStatus();
}

// A counting sort.
absl::StatusOr<std::vector<int32_t>> SortByGroup(
    absl::Span<const int32_t> group_index, int64_t group_size) {
  const int64_t groups = group_index.size() / group_size;
  std::vector<int64_t> members(groups, 0);
  std::vector<int32_t> order(group_index.size());
  for (size_t feature = 0; feature < group_index.size(); ++feature) {
    const int32_t group = group_index[feature];
    if (group < 0 || group >= groups) {
      return absl::InvalidArgumentError(
          absl::StrCat("group_index[", feature, "] = ", group,
                       ": must be 0 to ", groups - 1));
    }
    if (members[group] == group_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("group_index[", feature, "] = ", group,
                       ": that group has more than ", group_size, " members"));
    }
    order[group * group_size + members[group]++] = feature;
  }
  return order;
}

SectionDecoder::SectionDecoder(const WeightsSpec& spec, WeightsSink* sink)
    : spec_(spec),
      sections_(SectionsOf(spec)),
      sink_(sink),
      header_(HeaderOf(spec)) {}

absl::Status SectionDecoder::OnSectionEnd(Section) { return absl::OkStatus(); }

absl::Status SectionDecoder::Append(Section section,
                                    absl::Span<const uint8_t> bytes) {
  if (status_.ok()) status_ = AppendInOrder(section, bytes);
  return status_;
}

absl::Status SectionDecoder::AppendInOrder(Section section,
                                           absl::Span<const uint8_t> bytes) {
  if (position_ == sections_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "section ", Name(section), ": bytes after the end of the weights"));
  }
  const SectionSize& current = sections_[position_];
  if (section != current.section) {
    return absl::InvalidArgumentError(absl::StrCat(
        "section ", Name(section), ": byte ", received_, " of ", current.bytes,
        " of section ", Name(current.section), " comes first"));
  }
  if (static_cast<int64_t>(bytes.size()) > current.bytes - received_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "section ", Name(section), ": ", bytes.size(), " bytes at offset ",
        received_, " pass its end at ", current.bytes));
  }
  RETURN_IF_ERROR(BeginIfDue());
  if (IsMetadata(section)) {
    if (metadata_.empty()) metadata_.reserve(current.bytes);
    metadata_.insert(metadata_.end(), bytes.begin(), bytes.end());
  } else {
    RETURN_IF_ERROR(OnBytes(section, bytes));
  }
  received_ += bytes.size();
  return received_ == current.bytes ? EndSection() : absl::OkStatus();
}

absl::Status SectionDecoder::EndSection() {
  const Section section = sections_[position_].section;
  if (IsMetadata(section)) {
    RETURN_IF_ERROR(TakeMetadata(section));
    metadata_ = {};
  } else {
    RETURN_IF_ERROR(OnSectionEnd(section));
  }
  received_ = 0;
  ++position_;
  return BeginIfDue();
}

absl::Status SectionDecoder::TakeMetadata(Section section) {
  switch (section) {
    case Section::kCodebook:
      header_.codebook = As<float>(metadata_);
      return CheckFinite(header_.codebook, "codebook");
    case Section::kBias:
      header_.bias = As<float>(metadata_);
      return CheckFinite(header_.bias, "bias");
    case Section::kGroupIndex: {
      ASSIGN_OR_RETURN(header_.permutation,
                       SortByGroup(As<int32_t>(metadata_), header_.group_size));
      return absl::OkStatus();
    }
    default:
      return absl::OkStatus();
  }
}

absl::Status SectionDecoder::BeginIfDue() {
  if (begun_ || position_ == sections_.size() ||
      IsMetadata(sections_[position_].section)) {
    return absl::OkStatus();
  }
  begun_ = true;
  return sink_->Begin(header_);
}

absl::StatusOr<DecodeReport> SectionDecoder::Finish() {
  RETURN_IF_ERROR(status_);
  if (position_ == sections_.size()) return report_;
  const SectionSize& current = sections_[position_];
  status_ = absl::InvalidArgumentError(
      absl::StrCat("section ", Name(current.section), ": ends after ",
                   received_, " of ", current.bytes, " bytes"));
  return status_;
}

}  // namespace qgemm
