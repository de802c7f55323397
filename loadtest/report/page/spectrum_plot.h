// SPDX-License-Identifier: Apache-2.0
//
// What the plot of a run's latency percentiles shows.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_SPECTRUM_PLOT_H_
#define QGEMM_LOADTEST_REPORT_PAGE_SPECTRUM_PLOT_H_

#include "loadtest/report/loadtest_report.h"
#include "loadtest/report/page/plot.h"

namespace qgemm {

// Of the headline run; without values if nothing was answered. The x axis is
// 1 / (1 - percentile), so that each further nine is as long as the last.
Plot SpectrumPlot(const LoadtestReport& report);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_SPECTRUM_PLOT_H_
