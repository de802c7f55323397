// SPDX-License-Identifier: Apache-2.0
//
// What differs between two load tests, and whether chance explains it. Values
// in, value out; its text is in comparison_table.h.

#ifndef QGEMM_LOADTEST_REPORT_COMPARE_H_
#define QGEMM_LOADTEST_REPORT_COMPARE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "loadtest/report/block_bootstrap.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm {

// b against a.
enum class Judgement : uint8_t {
  kNone,  // no interval
  kNoDifferenceShown,
  kFaster,
  kSlower,
  kMore,  // of a figure that is neither good nor bad
  kLess,
};

// "faster", "no difference shown", …; empty for kNone.
absl::string_view Name(Judgement judgement);

struct ComparisonRow {
  std::string name;  // with its unit: "p50 us"
  double a = 0;
  double b = 0;
  std::optional<double> ratio;            // b / a; absent if one is 0
  std::optional<RatioInterval> interval;  // 95 %, of the ratio
  std::string why_no_interval;            // if it is absent
  Judgement judgement = Judgement::kNone;
};

struct RunComparison {
  std::string label;  // that both reports have; empty if there is one run
  std::vector<ComparisonRow> rows;
  std::vector<std::string> warnings;  // of these two runs
};

struct OptionDifference {
  std::string name;
  std::optional<std::string> a;  // absent: a does not have it
  std::optional<std::string> b;
};

struct Comparison {
  // A line each that says what was run: version, device, weights, start.
  std::string a;
  std::string b;
  // What must be equal for the figures to be comparable, and is not.
  std::vector<std::string> warnings;
  std::vector<OptionDifference> options;  // that differ, output files apart
  // Of labels that both have, in a's order; the first of equal labels.
  std::vector<RunComparison> runs;
};

// The interval covers what varies within the two runs. What varies between
// runs of the same thing (placement, clocks, neighbours) it cannot know.
Comparison Compare(const LoadtestReport& a, const LoadtestReport& b);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_COMPARE_H_
