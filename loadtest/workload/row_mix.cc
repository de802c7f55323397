// SPDX-License-Identifier: Apache-2.0
//
// Parsing, and picking by the sums of the shares.

#include "loadtest/workload/row_mix.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr int64_t kMaxRows = int64_t{1} << 20;
constexpr double kMaxWeight = 1e9;
constexpr size_t kMaxClasses = 64;

absl::Status BadMix(absl::string_view text, absl::string_view entry,
                    absl::string_view legal) {
  return absl::InvalidArgumentError(
      absl::StrCat("--m=", text, ": \"", entry, "\": ", legal));
}

absl::StatusOr<RowClass> ParseEntry(absl::string_view text,
                                    absl::string_view entry) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(entry, absl::MaxSplits(':', 1));
  RowClass parsed;
  if (!absl::SimpleAtoi(parts.first, &parsed.rows) || parsed.rows < 1 ||
      parsed.rows > kMaxRows) {
    return BadMix(text, entry, absl::StrCat("rows must be 1 to ", kMaxRows));
  }
  const bool has_weight = parts.first.size() < entry.size();
  if (has_weight && !(absl::SimpleAtod(parts.second, &parsed.share) &&
                      parsed.share > 0 && parsed.share <= kMaxWeight)) {
    return BadMix(
        text, entry,
        absl::StrCat("a weight must be above 0 and at most ", kMaxWeight));
  }
  return parsed;
}

}  // namespace

RowMix::RowMix(std::vector<RowClass> classes) : classes_(std::move(classes)) {
  double total = 0;
  for (const RowClass& row_class : classes_) total += row_class.share;
  double sum = 0;
  for (RowClass& row_class : classes_) {
    sum += row_class.share;
    share_ends_.push_back(sum / total);
    row_class.share /= total;
  }
}

int RowMix::Pick(double uniform) const {
  // The last end is total / total: exactly 1, and above every `uniform`.
  const auto end = absl::c_upper_bound(share_ends_, uniform);
  return static_cast<int>(end - share_ends_.begin());
}

double RowMix::mean_rows() const {
  double mean = 0;
  for (const RowClass& row_class : classes_) {
    mean += static_cast<double>(row_class.rows) * row_class.share;
  }
  return mean;
}

absl::StatusOr<RowMix> ParseRowMix(absl::string_view text) {
  std::vector<RowClass> classes;
  for (const absl::string_view entry : absl::StrSplit(text, ',')) {
    ASSIGN_OR_RETURN(const RowClass parsed, ParseEntry(text, entry));
    const bool is_repeated = absl::c_any_of(
        classes,
        [&](const RowClass& other) { return other.rows == parsed.rows; });
    if (is_repeated) {
      return BadMix(text, entry, "each number of rows must come once");
    }
    classes.push_back(parsed);
    if (classes.size() > kMaxClasses) {
      return BadMix(text, entry,
                    absl::StrCat("must be at most ", kMaxClasses, " entries"));
    }
  }
  return RowMix(std::move(classes));
}

}  // namespace qgemm
