// SPDX-License-Identifier: Apache-2.0
//
// A load test's report as JSON: every figure, with full histograms.
// docs/load-testing-report.md lists the fields; tools/report_data.py reads
// them.

#ifndef QGEMM_LOADTEST_REPORT_REPORT_JSON_H_
#define QGEMM_LOADTEST_REPORT_REPORT_JSON_H_

#include <string>

#include "loadtest/report/loadtest_report.h"

namespace qgemm {

// Goes up when a field changes its meaning or disappears, not when one is
// added.
inline constexpr int kReportSchemaVersion = 3;

// Bytes of text that are not UTF-8 become U+FFFD; numbers that are not finite
// become null.
std::string FormatJson(const LoadtestReport& report);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_REPORT_JSON_H_
