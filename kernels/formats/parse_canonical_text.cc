// SPDX-License-Identifier: Apache-2.0
//
// Back from the canonical text to its spec. The fields are set from the lines
// in any order; that the text of the result is the text that was read is what
// makes the reader strict.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "kernels/formats/weights_spec.h"

namespace qgemm {
namespace {

// Sets the field to the value of that name, or returns false.
template <typename Enum>
bool SetByName(absl::string_view name, Enum* field) {
  constexpr int kMostValues = 8;
  for (int value = 0; value < kMostValues; ++value) {
    const auto candidate = static_cast<Enum>(value);
    const absl::string_view candidate_name = Name(candidate);
    if (candidate_name == "?" || candidate_name.empty()) continue;
    if (candidate_name != name) continue;
    *field = candidate;
    return true;
  }
  return false;
}

bool SetFlag(absl::string_view text, bool* field) {
  *field = text == "1";
  return text == "0" || text == "1";
}

// The format, which is on the first line after the title, is set before.
bool SetField(absl::string_view name, absl::string_view value,
              WeightsSpec* spec) {
  if (name == "format") return SetByName(value, &spec->format);
  if (name == "n") return absl::SimpleAtoi(value, &spec->n);
  if (name == "k") return absl::SimpleAtoi(value, &spec->k);
  if (name == "bias") return SetFlag(value, &spec->has_bias);
  if (name == "type") return SetByName(value, &spec->dense_type);
  if (name == "quantize_to") return SetByName(value, &spec->quantize_to);
  if (name == "resident_type") return SetByName(value, &spec->resident_type);
  if (name == "bits") return absl::SimpleAtoi(value, &spec->bits);
  if (name == "layout") {
    return spec->format == WireFormat::kInt4
               ? SetByName(value, &spec->int4_layout)
               : SetByName(value, &spec->kbit_layout);
  }
  if (name == "scale_type") return SetByName(value, &spec->scale_type);
  if (name == "codebook") return SetFlag(value, &spec->has_codebook);
  if (name == "coding") return SetByName(value, &spec->ternary_coding);
  if (name == "tensor_wide_scale") {
    return SetFlag(value, &spec->tensor_wide_scale);
  }
  if (name == "group_size") return absl::SimpleAtoi(value, &spec->group_size);
  if (name == "zeros") return SetFlag(value, &spec->has_zeros);
  if (name == "group_index") return SetFlag(value, &spec->has_group_index);
  return false;
}

}  // namespace

absl::StatusOr<WeightsSpec> ParseCanonicalText(absl::string_view text,
                                               const WeightsLimits& limits) {
  WeightsSpec spec;
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  for (size_t i = 1; i + 1 < lines.size(); ++i) {
    const absl::string_view line = lines[i];
    const size_t equals = line.find('=');
    if (equals == absl::string_view::npos ||
        !SetField(line.substr(0, equals), line.substr(equals + 1), &spec)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", i + 1, " of the canonical text is none of a spec"));
    }
  }
  RETURN_IF_ERROR(Validate(spec, limits));
  if (CanonicalText(spec) != text) {
    return absl::InvalidArgumentError(
        "the text is not the canonical one of its spec");
  }
  return spec;
}

}  // namespace qgemm
