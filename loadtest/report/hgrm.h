// SPDX-License-Identifier: Apache-2.0
//
// A histogram as HdrHistogram prints percentiles (".hgrm"), which its plotter
// and other load testers' tools read.

#ifndef QGEMM_LOADTEST_REPORT_HGRM_H_
#define QGEMM_LOADTEST_REPORT_HGRM_H_

#include <string>

#include "base/histogram.h"

namespace qgemm {

// Values are divided by `unit`: 1000 makes microseconds of nanoseconds. Five
// lines each time that the distance to 100 % halves.
// Source: HdrHistogram, AbstractHistogram.outputPercentileDistribution and
// PercentileIterator; but a value is never above the maximum.
std::string FormatHgrm(const Histogram& histogram, double unit);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_HGRM_H_
