// SPDX-License-Identifier: Apache-2.0
//
// A comparison of two load tests as text for people.

#ifndef QGEMM_LOADTEST_REPORT_COMPARISON_TABLE_H_
#define QGEMM_LOADTEST_REPORT_COMPARISON_TABLE_H_

#include <string>

#include "loadtest/report/compare.h"

namespace qgemm {

// What a and b are, warnings, options that differ, then a row a figure.
std::string FormatComparison(const Comparison& comparison);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_COMPARISON_TABLE_H_
