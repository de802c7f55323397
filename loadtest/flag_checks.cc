// SPDX-License-Identifier: Apache-2.0

#include "loadtest/flag_checks.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace qgemm {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 20;

}  // namespace

absl::Status BadFlag(absl::string_view flag, absl::string_view value,
                     absl::string_view legal) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", value, ": must be ", legal));
}

absl::Status CheckRange(absl::string_view flag, int64_t value, int64_t low,
                        int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return BadFlag(flag, absl::StrCat(value), absl::StrCat(low, " to ", high));
}

absl::Status CheckNumber(absl::string_view flag, double value, double high) {
  if (value >= 0 && value <= high) return absl::OkStatus();
  return BadFlag(flag, absl::StrCat(value), absl::StrCat("0 to ", high));
}

absl::Status CheckTime(absl::string_view flag, absl::Duration value,
                       absl::Duration low) {
  const absl::Duration limit = absl::Hours(24 * 365);
  if (value >= low && value <= limit) return absl::OkStatus();
  return BadFlag(flag, absl::FormatDuration(value),
                 absl::StrCat("at least ", absl::FormatDuration(low),
                              " and at most a year"));
}

absl::StatusOr<SyntheticShape> ParseShape(absl::string_view flag,
                                          absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, 'x');
  SyntheticShape shape;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &shape.k) ||
      !absl::SimpleAtoi(parts[1], &shape.n) || shape.k < 1 || shape.n < 1 ||
      shape.k > kMaxExtent || shape.n > kMaxExtent) {
    return BadFlag(flag, text, absl::StrCat("KxN, each 1 to ", kMaxExtent));
  }
  return shape;
}

}  // namespace qgemm
