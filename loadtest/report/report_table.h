// SPDX-License-Identifier: Apache-2.0
//
// A load test's report as text for people. Programs read report_json.h.

#ifndef QGEMM_LOADTEST_REPORT_REPORT_TABLE_H_
#define QGEMM_LOADTEST_REPORT_REPORT_TABLE_H_

#include <string>

#include "loadtest/report/loadtest_report.h"

namespace qgemm {

// Lines of a label and its figures. Several runs get a row each, and the lines
// then describe the headline run.
std::string FormatTable(const LoadtestReport& report);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_REPORT_TABLE_H_
