// SPDX-License-Identifier: Apache-2.0
//
// Whether a load test passed, and if not, why. Decisions only.

#ifndef QGEMM_LOADTEST_JUDGEMENT_H_
#define QGEMM_LOADTEST_JUDGEMENT_H_

#include <vector>

#include "loadtest/options.h"
#include "loadtest/report/loadtest_report.h"
#include "loadtest/report/run_result.h"

namespace qgemm {

// Open arrivals keep their rate if they send this share of what was due.
inline constexpr double kKeptShare = 0.99;

// What is wrong with the runs and answers of a report, the gravest first.
std::vector<Finding> Judge(const LoadtestReport& report,
                           const LoadtestOptions& options);

// A run of a search: no error, the rate kept, the generator on time, and the
// SLO held.
bool Holds(const RunResult& run, const LoadtestOptions& options);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_JUDGEMENT_H_
