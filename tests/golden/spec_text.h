// SPDX-License-Identifier: Apache-2.0
//
// Reads a canonical text (docs/formats.md#identity) back into a spec, so that
// golden files and documented examples say what they are in that one grammar.

#ifndef QGEMM_TESTS_GOLDEN_SPEC_TEXT_H_
#define QGEMM_TESTS_GOLDEN_SPEC_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/formats/weights_spec.h"

namespace qgemm {

// The enumerators that print as `name`. INVALID_ARGUMENT if none does.
absl::StatusOr<Section> ParseSection(absl::string_view name);
absl::StatusOr<ScaleType> ParseScaleType(absl::string_view name);
absl::StatusOr<TernaryCoding> ParseTernaryCoding(absl::string_view name);
absl::StatusOr<QuantizeTarget> ParseQuantizeTarget(absl::string_view name);

// The spec of a canonical text, whose lines may be separated by spaces.
// INVALID_ARGUMENT for a field or value that is unknown; whether the fields
// fit together is left to Validate and CanonicalText.
absl::StatusOr<WeightsSpec> ParseSpecText(absl::string_view text);

}  // namespace qgemm

#endif  // QGEMM_TESTS_GOLDEN_SPEC_TEXT_H_
