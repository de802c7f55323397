// SPDX-License-Identifier: Apache-2.0
//
// One load test from connecting to its report: puts the weights in place, runs
// once or many times, checks the answers, takes the weights away, judges.

#ifndef QGEMM_LOADTEST_RUNNER_H_
#define QGEMM_LOADTEST_RUNNER_H_

#include <atomic>

#include "loadtest/live_line.h"
#include "loadtest/options.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm::loadtest {

// Ends early, with the measurements so far, once `stop` is true. The report's
// findings tell errors; a test that never started has no runs. The caller fills
// in options and command.
LoadtestReport RunLoadTest(const LoadtestOptions& options,
                           const std::atomic<bool>& stop, LiveLine* live);

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_RUNNER_H_
