// SPDX-License-Identifier: Apache-2.0
//
// Reports like those of real runs, without a server: for the page's tests and
// for looking at it. The same in every process.

#ifndef QGEMM_TESTS_CLIENT_LOADTEST_REPORT_PAGE_SAMPLE_REPORTS_H_
#define QGEMM_TESTS_CLIENT_LOADTEST_REPORT_PAGE_SAMPLE_REPORTS_H_

#include "loadtest/report/loadtest_report.h"

namespace qgemm {

// One open run at 2,000 requests/s for 10 s that passed, with a yardstick and
// --slo=p99=2ms.
LoadtestReport OpenReport();

// Nine open runs of ascending rate with a knee; the headline is that at
// 12,000 requests/s.
LoadtestReport SweepReport();

// The same with the result of a search: 14,000 requests/s hold p99=2ms.
LoadtestReport PeakReport();

// An open run with 37 errors whose messages are full of markup, a wrong answer
// and an SLO that was missed.
LoadtestReport FailedReport();

// A closed run of three classes of requests.
LoadtestReport ClassesReport();

// The load test never started.
LoadtestReport EmptyReport();

}  // namespace qgemm

#endif  // QGEMM_TESTS_CLIENT_LOADTEST_REPORT_PAGE_SAMPLE_REPORTS_H_
