// SPDX-License-Identifier: Apache-2.0
//
// A report as one page for a browser or paper: pictures, tables and the
// command that runs it again. Its parts are in page/.

#ifndef QGEMM_LOADTEST_REPORT_HTML_PAGE_H_
#define QGEMM_LOADTEST_REPORT_HTML_PAGE_H_

#include <string>

#include "loadtest/report/loadtest_report.h"

namespace qgemm {

// HTML5 that refers to nothing outside itself and holds no script. Follows the
// reader's preference for light or dark.
std::string FormatHtml(const LoadtestReport& report);

// The spectrum of the headline run's latencies alone, an .svg file with its
// own background.
std::string FormatSpectrumSvg(const LoadtestReport& report);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_HTML_PAGE_H_
