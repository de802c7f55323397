// SPDX-License-Identifier: Apache-2.0
//
// Findings of a load test: why it did not pass. Decisions only.

#ifndef QGEMM_LOADTEST_JUDGEMENT_H_
#define QGEMM_LOADTEST_JUDGEMENT_H_

#include <vector>

#include "loadtest/options.h"
#include "loadtest/report/loadtest_report.h"
#include "loadtest/report/run_result.h"

namespace qgemm::loadtest {

// Open arrivals keep their rate if they send this share of what was due.
inline constexpr double kKeptShare = 0.99;

// Faults of a report's runs and answers, the gravest first.
std::vector<Finding> Judge(const LoadtestReport& report,
                           const LoadtestOptions& options);

// True for a run without an error, its rate kept, the generator on time, and
// the SLO held.
bool Holds(const RunResult& run, const LoadtestOptions& options);

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_JUDGEMENT_H_
