// SPDX-License-Identifier: Apache-2.0
//
// The time series of a load test for spreadsheets and plotting programs. The
// columns are documented in docs/load-testing-report.md.

#ifndef QGEMM_LOADTEST_REPORT_SERIES_CSV_H_
#define QGEMM_LOADTEST_REPORT_SERIES_CSV_H_

#include <string>

#include "loadtest/report/loadtest_report.h"

namespace qgemm {

// A header row, then a row an interval of each run; quoted as RFC 4180 says.
std::string FormatSeriesCsv(const LoadtestReport& report);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_SERIES_CSV_H_
