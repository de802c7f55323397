// SPDX-License-Identifier: Apache-2.0
//
// One run of the generator against one server, and the baseline: echoes of the
// same bytes.

#ifndef QGEMM_LOADTEST_MEASURE_H_
#define QGEMM_LOADTEST_MEASURE_H_

#include <atomic>

#include "absl/status/statusor.h"
#include "loadtest/engine/load_generator.h"
#include "loadtest/load_set.h"
#include "loadtest/options.h"
#include "loadtest/report/loadtest_report.h"
#include "qgemm/client.h"

namespace qgemm::loadtest {

// Objects that a run uses. All of them must outlive the run; `observer` and
// `live` may be null.
struct RunParts {
  Client* client = nullptr;  // used by --churn; else null
  const LoadSet* set = nullptr;
  AnswerObserver* observer = nullptr;
  const std::atomic<bool>* stop = nullptr;
  LiveView live;
};

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

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_MEASURE_H_
