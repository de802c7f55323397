// SPDX-License-Identifier: Apache-2.0
//
// A discrete-event simulation of clients, the real launch planner and one
// device, to compare policies with. No threads and no clock: the same seed
// gives the same run.

#ifndef QGEMM_TESTS_SERVER_SCHEDULING_SIMULATOR_H_
#define QGEMM_TESTS_SERVER_SCHEDULING_SIMULATOR_H_

#include <cstdint>

#include "absl/time/time.h"
#include "server/scheduling/gemm_request.h"
#include "server/scheduling/launch_planner.h"

namespace qgemm {

enum class AccessPattern {
  kOneMatrix,   // open loop, Poisson arrivals
  kDecodeWalk,  // each client asks for one matrix after the other, in a circle
  kRandom,      // each client asks for any matrix
};

// Requests of one more identity, for a matrix of their own, that are all there
// from the start; each that is answered is followed by another.
struct SimulatedBacklog {
  int64_t requests = 0;
  int64_t rows = 64;
  // Work of each of its rows, in rows of ordinary weights.
  int64_t row_work = 1;
  int64_t client_ids = 1;  // that it takes in turn
  Priority priority = Priority::kNormal;
};

struct SimulatedLoad {
  AccessPattern pattern = AccessPattern::kDecodeWalk;
  uint64_t seed = 1;
  int64_t matrices = 224;
  // Closed loop: a client asks again when it has had its answer for about
  // `turnaround`, four fifths to six fifths of it.
  int64_t clients = 16;
  absl::Duration turnaround = absl::Microseconds(80);
  // Each client is an identity of its own, or all are of one.
  bool clients_are_identities = false;
  int64_t rows = 1;  // of each of their requests
  // Work of each row, in rows of ordinary weights.
  int64_t row_work = 1;
  SimulatedBacklog backlog;
  // kOneMatrix.
  double requests_per_second = 0;
  // The first fifth is not counted.
  absl::Duration length = absl::Milliseconds(300);
};

// Runs one launch after the other: flat up to a tile of rows, then linear.
struct SimulatedDevice {
  absl::Duration tile = absl::Microseconds(20);
  int64_t tile_rows = 16;
  // From a launch until an idle device begins with it.
  absl::Duration start;
};

// Figures of the clients; the backlog's requests are not counted.
struct SimulatedRun {
  double requests_per_second = 0;
  double rows_per_launch = 0;
  absl::Duration p50;  // from arrival to the launch's end
  absl::Duration p99;
  // Launches that a request waited for, the most of all.
  int64_t most_launches_waited = 0;
};

SimulatedRun Simulate(const SchedulerOptions& options,
                      const SimulatedLoad& load,
                      const SimulatedDevice& device = {});

}  // namespace qgemm

#endif  // QGEMM_TESTS_SERVER_SCHEDULING_SIMULATOR_H_
