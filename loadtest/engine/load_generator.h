// SPDX-License-Identifier: Apache-2.0
//
// Runs lanes for a while and gathers what they counted: totals, and a time
// series on the way.

#ifndef QGEMM_LOADTEST_ENGINE_LOAD_GENERATOR_H_
#define QGEMM_LOADTEST_ENGINE_LOAD_GENERATOR_H_

#include <atomic>
#include <functional>

#include "absl/status/statusor.h"
#include "loadtest/engine/lane.h"
#include "loadtest/engine/lane_options.h"
#include "loadtest/report/run_result.h"

namespace qgemm {

// Called about every 100 ms on the thread that called GenerateLoad.
using LiveView = std::function<void(const SeriesPoint&)>;

// Sends until the time is over or `stop` becomes true, and waits for what is in
// flight. The result lacks what the caller knows: label, rate, processor times
// and uploads. Errors: those of opening connections.
absl::StatusOr<RunResult> GenerateLoad(const GeneratorOptions& options,
                                       const LaneParts& parts,
                                       const std::atomic<bool>& stop,
                                       const LiveView& live);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_ENGINE_LOAD_GENERATOR_H_
