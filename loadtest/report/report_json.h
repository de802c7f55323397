// SPDX-License-Identifier: Apache-2.0
//
// A load test's report as JSON and back. The fields are documented in
// docs/load-testing-report.md; a change that breaks a reader raises
// kReportSchemaVersion.

#ifndef QGEMM_LOADTEST_REPORT_REPORT_JSON_H_
#define QGEMM_LOADTEST_REPORT_REPORT_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm {

inline constexpr int kReportSchemaVersion = 2;

std::string FormatJson(const LoadtestReport& report);

// What FormatJson was given. Exact: text that is UTF-8 (other bytes became
// U+FFFD), counts up to 2^53, finite numbers (others are NaN), durations to the
// nanosecond up to 13 days, of histograms count, buckets, minimum, maximum and
// percentiles (their means to half a nanosecond).
// Errors: INVALID_ARGUMENT (not JSON, another schema or version, a field that
// is missing or of the wrong type or range, named by its path).
absl::StatusOr<LoadtestReport> ParseReportJson(absl::string_view text);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_REPORT_JSON_H_
