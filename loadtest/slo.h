// SPDX-License-Identifier: Apache-2.0
//
// What a run is held to: bounds on percentiles of latency. Decisions only.

#ifndef QGEMM_LOADTEST_SLO_H_
#define QGEMM_LOADTEST_SLO_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "loadtest/report/run_result.h"

namespace qgemm {

struct LatencyBound {
  std::string name;    // "p99"
  double percent = 0;  // above 0, at most 100
  absl::Duration limit;
};

// All of them must hold.
using Slo = std::vector<LatencyBound>;

// "p99=500us,p99.9=2ms"; empty text: no bound.
// Errors: INVALID_ARGUMENT that names --slo, the bound and what is legal.
absl::StatusOr<Slo> ParseSlo(absl::string_view text);

// The bounds that the latencies from the intended start miss, for people:
// "p99 is 612us, above 500us". A run without an answer misses every bound.
std::vector<std::string> MissedBounds(const RunResult& run, const Slo& slo);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_SLO_H_
