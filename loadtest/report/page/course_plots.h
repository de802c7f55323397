// SPDX-License-Identifier: Apache-2.0
//
// What the plots of a run's course over time show, by when requests ended.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_COURSE_PLOTS_H_
#define QGEMM_LOADTEST_REPORT_PAGE_COURSE_PLOTS_H_

#include "loadtest/report/page/plot.h"
#include "loadtest/report/run_result.h"

namespace qgemm {

// Each is without values if the run has no series.
Plot AnswersPlot(const RunResult& run);
// Intervals without an answer are gaps.
Plot LatencyCoursePlot(const RunResult& run);
Plot InFlightPlot(const RunResult& run);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_COURSE_PLOTS_H_
