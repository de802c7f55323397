// SPDX-License-Identifier: Apache-2.0
//
// Columns and lines of a comparison.

#include "loadtest/report/comparison_table.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace qgemm {
namespace {

std::string WarningLines(const std::vector<std::string>& warnings) {
  std::string text;
  for (const std::string& warning : warnings) {
    absl::StrAppend(&text, "WARNING    ", warning, "\n");
  }
  return text;
}

std::string OptionLines(const Comparison& comparison) {
  std::string text;
  for (const OptionDifference& option : comparison.options) {
    absl::StrAppendFormat(&text, "option     --%s: %s in a, %s in b\n",
                          option.name, option.a.value_or("absent"),
                          option.b.value_or("absent"));
  }
  return text;
}

std::string RatioText(const std::optional<double>& ratio) {
  return ratio.has_value() ? absl::StrFormat("%.4f", *ratio) : "-";
}

std::string VerdictText(const ComparisonRow& row) {
  if (!row.interval.has_value()) {
    return absl::StrFormat("no interval: %s", row.why_no_interval);
  }
  return absl::StrFormat("%.4f to %.4f  %s", row.interval->low,
                         row.interval->high, Name(row.judgement));
}

std::string RowLine(const ComparisonRow& row) {
  return absl::StrFormat("%-23s %12.2f %12.2f %8s  %s\n", row.name, row.a,
                         row.b, RatioText(row.ratio), VerdictText(row));
}

std::string RunLines(const RunComparison& run) {
  std::string text;
  if (!run.label.empty())
    absl::StrAppend(&text, "run        ", run.label, "\n");
  absl::StrAppend(&text, WarningLines(run.warnings));
  absl::StrAppendFormat(&text, "%-23s %12s %12s %8s  %s\n", "", "a", "b", "b/a",
                        "95 % interval of b/a");
  for (const ComparisonRow& row : run.rows) {
    absl::StrAppend(&text, RowLine(row));
  }
  return text;
}

}  // namespace

std::string FormatComparison(const Comparison& comparison) {
  std::string text = absl::StrCat(
      "a          ", comparison.a, "\nb          ", comparison.b, "\n",
      WarningLines(comparison.warnings), OptionLines(comparison));
  if (comparison.runs.empty()) {
    absl::StrAppend(&text, "no run to compare\n");
  }
  for (const RunComparison& run : comparison.runs) {
    absl::StrAppend(&text, RunLines(run));
  }
  return text;
}

}  // namespace qgemm
