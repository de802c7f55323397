// SPDX-License-Identifier: Apache-2.0
//
// One load test from connecting to its report, and its steps: single runs, the
// baseline (echoes of the same bytes), the judgement.

#ifndef QGEMM_LOADTEST_RUNNER_H_
#define QGEMM_LOADTEST_RUNNER_H_

#include <atomic>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "loadtest/engine/load_generator.h"
#include "loadtest/live_line.h"
#include "loadtest/load_set.h"
#include "loadtest/options.h"
#include "loadtest/report/loadtest_report.h"
#include "qgemm/client.h"

namespace qgemm::loadtest {

// Puts the weights in place, runs once or many times, checks the answers,
// removes the weights, judges. Ends early, with the measurements so far, once
// `stop` is true. The report's findings tell errors; a test that never started
// has no runs. The caller fills in options and command.
LoadtestReport RunLoadTest(const LoadtestOptions& options,
                           const std::atomic<bool>& stop, LiveLine* live);

// Objects that a run uses. All of them must outlive the run; `observe` and
// `live` may be null.
struct RunParts {
  Client* client = nullptr;  // used by --churn and AskAlone; else null
  const LoadSet* set = nullptr;
  ObserveAnswer observe;
  const std::atomic<bool>* stop = nullptr;
  LiveView live;
};

// Sends each request to a program once, one at a time, to parts.observe: no
// answer under load may have other bits. Ends early once parts.stop is true.
// Errors: the first request's that fails; UNAVAILABLE without a client.
absl::Status AskAlone(const LoadtestOptions& options, const RunParts& parts);

// Sends as options.arrivals says. Errors: those of connecting, and of making
// the layers of --churn.
absl::StatusOr<RunResult> RunOnce(const LoadtestOptions& options,
                                  const RunParts& parts);

// Baseline of the set's first message: one client, echoes and products in
// turn; without a rate of echoes. Errors: as RunOnce; FAILED_PRECONDITION if
// the server offers no echo.
absl::StatusOr<Baseline> MeasureBaseline(const LoadtestOptions& options,
                                         const RunParts& parts);

// Echoes a second of that message, from as many closed loops and over as many
// connections as the options say. Errors: the same.
absl::StatusOr<double> MeasureEchoRate(LoadtestOptions options,
                                       const RunParts& parts);

// Faults of a report's runs and answers, the gravest first.
std::vector<Finding> Judge(const LoadtestReport& report,
                           const LoadtestOptions& options);

// True for a run without an error, its rate kept, the generator on time, and
// the SLO held.
bool Holds(const RunResult& run, const LoadtestOptions& options);

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_RUNNER_H_
