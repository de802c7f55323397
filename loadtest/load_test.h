// SPDX-License-Identifier: Apache-2.0
//
// One load test from connecting to its report: puts the weights in place, runs
// once or many times, checks the answers, takes the weights away, judges.

#ifndef QGEMM_LOADTEST_LOAD_TEST_H_
#define QGEMM_LOADTEST_LOAD_TEST_H_

#include <atomic>

#include "loadtest/live_line.h"
#include "loadtest/options.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm {

// Ends early, with what was measured so far, once `stop` is true. What went
// wrong is in the report's findings; one that never started has no runs. The
// caller fills in options and command.
LoadtestReport RunLoadTest(const LoadtestOptions& options,
                           const std::atomic<bool>& stop, LiveLine* live);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_LOAD_TEST_H_
