// SPDX-License-Identifier: Apache-2.0
//
// One load test from connecting to its report: makes the weights if asked to,
// runs the loop, removes them, checks the answers.

#ifndef QGEMM_CLIENT_LOADTEST_LOAD_TEST_H_
#define QGEMM_CLIENT_LOADTEST_LOAD_TEST_H_

#include <atomic>

#include "absl/status/statusor.h"
#include "client/loadtest/options.h"
#include "client/loadtest/report.h"

namespace qgemm {

// Ends early, with what was measured so far, once `stop` is true. Errors are
// those that keep the loop from running (no server, unknown weights, a refused
// upload); what goes wrong from then on is in the report.
absl::StatusOr<LoadtestReport> RunLoadTest(const LoadtestOptions& options,
                                           const std::atomic<bool>& stop);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LOADTEST_LOAD_TEST_H_
