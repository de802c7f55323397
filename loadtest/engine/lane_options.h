// SPDX-License-Identifier: Apache-2.0
//
// What the load generator and each of its lanes are told.

#ifndef QGEMM_LOADTEST_ENGINE_LANE_OPTIONS_H_
#define QGEMM_LOADTEST_ENGINE_LANE_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "loadtest/schedule/arrivals.h"

namespace qgemm {

// What happens to some requests on purpose.
struct Disturbances {
  double cancel_share = 0;  // of requests that are cancelled, 0 to 1
  // After a time uniform in [0, cancel_within].
  absl::Duration cancel_within = absl::Milliseconds(1);
  double disconnects_per_second = 0;  // of the whole generator
};

// A closed loop: its next request is due `think` after its last one ended.
struct VirtualClient {
  int64_t number = 0;  // as RequestPicker knows it
};

struct GeneratorOptions {
  int lanes = 1;  // each with a pacing and a completing thread
  // Open arrivals, and how many may be in flight at one time.
  std::optional<ArrivalSequence> arrivals;
  int max_in_flight = 0;  // 0 without arrivals
  // Closed loops, alone or beside open arrivals.
  std::vector<VirtualClient> clients;
  // Closed loops in one more lane, for long answers that would hold up the
  // others on a connection that they shared.
  std::vector<VirtualClient> clients_apart;
  absl::Duration think;
  absl::Duration warmup;
  absl::Duration duration;
  // Of each request, as the server is told; to miss it is no error. Infinite:
  // none.
  absl::Duration deadline = absl::InfiniteDuration();
  // A request without an answer by then is given up, which is an error. The
  // generator looks about every 100 ms; the server is not told, for a deadline
  // costs both sides some microseconds a request.
  absl::Duration timeout = absl::Seconds(30);
  Disturbances disturbances;
  // What a closed loop waits after an error, so that a server that refuses at
  // once is not called in a tight loop.
  absl::Duration pause_after_error = absl::Milliseconds(5);
  std::vector<std::string> class_names;  // one a row class
  std::vector<int64_t> class_rows;       // m of each
  uint64_t seed = 1;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_ENGINE_LANE_OPTIONS_H_
