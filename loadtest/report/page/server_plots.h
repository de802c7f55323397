// SPDX-License-Identifier: Apache-2.0
//
// What the pictures of the server's side show: launches, and where the time
// of a request goes.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_SERVER_PLOTS_H_
#define QGEMM_LOADTEST_REPORT_PAGE_SERVER_PLOTS_H_

#include <string>
#include <vector>

#include "base/histogram.h"
#include "loadtest/report/loadtest_report.h"
#include "loadtest/report/page/plot.h"
#include "loadtest/report/page/stacked_bar.h"

namespace qgemm {

// Shares of the answers by the rows of the launch that made them.
Plot LaunchRowsPlot(const RunResult& run);

// Means of the stages from the send to the answer. What the server did besides
// its stages, and what is left of the latency without the server, are parts
// too; clocks that disagree never make one below 0.
StackedBar TimingBar(const RunResult& run);

// p50 of the echo, of the device and of what the service adds to them.
StackedBar YardstickBar(const Yardstick& yardstick);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_SERVER_PLOTS_H_
