// SPDX-License-Identifier: Apache-2.0
//
// Runs senders for a while and gathers their counts: totals, and a time
// series.

#ifndef QGEMM_LOADTEST_ENGINE_LOAD_GENERATOR_H_
#define QGEMM_LOADTEST_ENGINE_LOAD_GENERATOR_H_

#include <atomic>
#include <functional>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "loadtest/engine/generator_options.h"
#include "loadtest/engine/transport.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm::loadtest {

// Objects that senders call. All must outlive them.
struct GeneratorParts {
  OpenTransport open;
  const RequestPicker* picker = nullptr;
  AnswerObserver* observer = nullptr;  // may be null
  const Clock* clock = nullptr;
};

// Called about every 100 ms on the thread that called GenerateLoad.
using LiveView = std::function<void(const SeriesPoint&)>;

// Sends until the time is over or `stop` becomes true, and waits for requests
// in flight. The caller adds what it knows: label, rate, processor times and
// uploads. Errors: those of opening connections.
absl::StatusOr<RunResult> GenerateLoad(const GeneratorOptions& options,
                                       const GeneratorParts& parts,
                                       const std::atomic<bool>& stop,
                                       const LiveView& live);

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_ENGINE_LOAD_GENERATOR_H_
