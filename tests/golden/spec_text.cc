// SPDX-License-Identifier: Apache-2.0
//
// One line a field of the grammar.

#include "tests/golden/spec_text.h"

#include <initializer_list>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr char kFirstLine[] = "qgemm-weights-v1";

// The first of `candidates` that prints as `name`.
template <typename Enum>
absl::StatusOr<Enum> ByName(std::initializer_list<Enum> candidates,
                            absl::string_view name) {
  for (const Enum candidate : candidates) {
    if (Name(candidate) == name) return candidate;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown value ", name));
}

absl::StatusOr<FloatType> ParseFloatType(absl::string_view name) {
  return ByName(
      {FloatType::kFloat32, FloatType::kFloat16, FloatType::kBFloat16}, name);
}

absl::StatusOr<int64_t> ParseInteger(absl::string_view text) {
  int64_t value;
  if (absl::SimpleAtoi(text, &value)) return value;
  return absl::InvalidArgumentError(absl::StrCat(text, " is no integer"));
}

absl::Status ParseFormat(absl::string_view value, WeightsSpec* spec) {
  ASSIGN_OR_RETURN(spec->format, ByName({WireFormat::kKbit, WireFormat::kQ4_0,
                                         WireFormat::kTernary,
                                         WireFormat::kInt4, WireFormat::kDense},
                                        value));
  return absl::OkStatus();
}

absl::Status ParseLayout(absl::string_view value, WeightsSpec* spec) {
  if (spec->format == WireFormat::kKbit) {
    ASSIGN_OR_RETURN(spec->kbit_layout,
                     ByName({KbitLayout::kFlat, KbitLayout::kTiled}, value));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(spec->int4_layout,
                   ByName({Int4Layout::kPlain, Int4Layout::kGptqV1,
                           Int4Layout::kGptqV2, Int4Layout::kAwq},
                          value));
  return absl::OkStatus();
}

// Fields whose value has a name.
absl::StatusOr<bool> ParseNamedField(absl::string_view field,
                                     absl::string_view value,
                                     WeightsSpec* spec) {
  if (field == "format") {
    RETURN_IF_ERROR(ParseFormat(value, spec));
  } else if (field == "layout") {
    RETURN_IF_ERROR(ParseLayout(value, spec));
  } else if (field == "scale_type") {
    ASSIGN_OR_RETURN(spec->scale_type, ParseScaleType(value));
  } else if (field == "coding") {
    ASSIGN_OR_RETURN(spec->ternary_coding, ParseTernaryCoding(value));
  } else if (field == "quantize_to") {
    ASSIGN_OR_RETURN(spec->quantize_to, ParseQuantizeTarget(value));
  } else if (field == "type") {
    ASSIGN_OR_RETURN(spec->dense_type, ParseFloatType(value));
  } else if (field == "resident_type") {
    ASSIGN_OR_RETURN(spec->resident_type, ParseFloatType(value));
  } else {
    return false;
  }
  return true;
}

// Fields whose value is a number.
absl::Status ParseNumberField(absl::string_view field, absl::string_view value,
                              WeightsSpec* spec) {
  ASSIGN_OR_RETURN(const int64_t number, ParseInteger(value));
  const std::pair<absl::string_view, int64_t*> integers[] = {
      {"n", &spec->n}, {"k", &spec->k}, {"group_size", &spec->group_size}};
  for (const auto& [name, target] : integers) {
    if (name != field) continue;
    *target = number;
    return absl::OkStatus();
  }
  if (field == "bits") {
    spec->bits = static_cast<int>(number);
    return absl::OkStatus();
  }
  const std::pair<absl::string_view, bool*> flags[] = {
      {"bias", &spec->has_bias},
      {"codebook", &spec->has_codebook},
      {"tensor_wide_scale", &spec->tensor_wide_scale},
      {"zeros", &spec->has_zeros},
      {"group_index", &spec->has_group_index}};
  for (const auto& [name, target] : flags) {
    if (name != field) continue;
    *target = number != 0;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown field ", field));
}

}  // namespace

absl::StatusOr<Section> ParseSection(absl::string_view name) {
  return ByName({Section::kCodebook, Section::kGroupIndex, Section::kBias,
                 Section::kScales, Section::kZeros, Section::kCodes},
                name);
}

absl::StatusOr<ScaleType> ParseScaleType(absl::string_view name) {
  return ByName({ScaleType::kE4m4, ScaleType::kFloat16, ScaleType::kBFloat16,
                 ScaleType::kFloat32},
                name);
}

absl::StatusOr<TernaryCoding> ParseTernaryCoding(absl::string_view name) {
  return ByName({TernaryCoding::kInt8, TernaryCoding::kPacked012,
                 TernaryCoding::kPacked123},
                name);
}

absl::StatusOr<QuantizeTarget> ParseQuantizeTarget(absl::string_view name) {
  return ByName(
      {QuantizeTarget::kNone, QuantizeTarget::kKbit, QuantizeTarget::kQ4_0,
       QuantizeTarget::kInt4, QuantizeTarget::kTernary},
      name);
}

absl::StatusOr<WeightsSpec> ParseSpecText(absl::string_view text) {
  const std::vector<absl::string_view> lines =
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  if (lines.empty() || lines[0] != kFirstLine) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text does not begin with ", kFirstLine));
  }
  WeightsSpec spec;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(lines[i], absl::MaxSplits('=', 1));
    ASSIGN_OR_RETURN(const bool named,
                     ParseNamedField(parts.first, parts.second, &spec));
    if (named) continue;
    RETURN_IF_ERROR(ParseNumberField(parts.first, parts.second, &spec));
  }
  return spec;
}

}  // namespace qgemm
