// SPDX-License-Identifier: Apache-2.0
//
// A load test's report as text: a table for people, JSON for tools, percentiles
// for HdrHistogram's plotter.

#ifndef QGEMM_LOADTEST_REPORT_REPORT_FORMATS_H_
#define QGEMM_LOADTEST_REPORT_REPORT_FORMATS_H_

#include <string>

#include "base/histogram.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm::loadtest {

// Lines of a label and its figures. Several runs get a row each, and the lines
// then describe the headline run.
std::string FormatTable(const LoadtestReport& report);

// Goes up when a field changes its meaning or disappears, not when one is
// added.
inline constexpr int kReportSchemaVersion = 3;

// Every figure, with full histograms. docs/load-testing-report.md lists the
// fields; tools/report_data.py reads them. Bytes of text that are not UTF-8
// become U+FFFD; numbers that are not finite become null.
std::string FormatJson(const LoadtestReport& report);

// A histogram as HdrHistogram prints percentiles (".hgrm"), which its plotter
// and other load testers' tools read. Values are divided by `unit`: 1000 makes
// microseconds of nanoseconds. Five lines each time that the distance to 100 %
// halves.
// Source: HdrHistogram, AbstractHistogram.outputPercentileDistribution and
// PercentileIterator; but a value is never above the maximum.
std::string FormatHgrm(const Histogram& histogram, double unit);

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_REPORT_REPORT_FORMATS_H_
