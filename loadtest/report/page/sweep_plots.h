// SPDX-License-Identifier: Apache-2.0
//
// What the plots of several runs show: latency and throughput against what
// was varied, and where the curve bends.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_SWEEP_PLOTS_H_
#define QGEMM_LOADTEST_REPORT_PAGE_SWEEP_PLOTS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "loadtest/report/loadtest_report.h"
#include "loadtest/report/page/plot.h"

namespace qgemm {

// A run that stands out among the others.
struct Turn {
  size_t run = 0;    // index into LoadtestReport::runs
  std::string name;  // "peak": the highest rate that held; "knee"
};
// The peak if the report has one, else the knee of p99 over the rate; nothing
// without a bend, or if what was varied is not the rate.
std::optional<Turn> FindTurn(const LoadtestReport& report);

// p50, p99 and p99.9 over the achieved rate of open arrivals; over the swept
// value ("concurrency=8") of closed ones, or if that is no number, over the
// answers a second. Runs without an answer are left out.
Plot RateLatencyPlot(const LoadtestReport& report);

// Answers a second over the asked rate, or over the swept value.
Plot ThroughputPlot(const LoadtestReport& report);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_SWEEP_PLOTS_H_
