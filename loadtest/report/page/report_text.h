// SPDX-License-Identifier: Apache-2.0
//
// Words about a report that several parts of its page use.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_REPORT_TEXT_H_
#define QGEMM_LOADTEST_REPORT_PAGE_REPORT_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm {

// One limit of --slo.
struct SloLimit {
  std::string text;  // "p99=500us"
  double percent = 0;
  double limit_ns = 0;
};

// Reads "p99=500us,p99.9=2ms"; what is not like that is left out.
std::vector<SloLimit> ParseSloLimits(absl::string_view slo);
// Those of the report's option `slo`, else of its search for a peak.
std::vector<SloLimit> SloLimitsOf(const LoadtestReport& report);

// Empty if there is no such option.
absl::string_view OptionValue(const LoadtestReport& report,
                              absl::string_view name);

bool IsOpen(const RunResult& run);

// "Open arrivals at 2,000 requests/s …": what was run, on what.
std::string RunSentence(const LoadtestReport& report);
// The same in a few words.
std::string RunSummary(const LoadtestReport& report);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_REPORT_TEXT_H_
