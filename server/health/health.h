// SPDX-License-Identifier: Apache-2.0
//
// Decides from facts whether the server serves. Decisions only: who looks at
// the facts, and when, is in health_monitor.h.

#ifndef QGEMM_SERVER_HEALTH_HEALTH_H_
#define QGEMM_SERVER_HEALTH_HEALTH_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/metrics/server_metrics.h"

namespace qgemm {

struct HealthFacts {
  bool started = false;   // every part is ready for calls
  bool draining = false;  // calls are refused for good
  absl::Status backend;   // Backend::failure()
  // Time for which the oldest launch has neither ended nor made progress; zero
  // without one.
  absl::Duration oldest_launch;
  // A launch beyond it hangs; infinite: none does.
  absl::Duration launch_timeout = absl::InfiniteDuration();
  absl::Status listeners;  // of the last probe
  // Says which layers are still to be read from the disk; empty: none.
  std::string awaited_layers;
  // Name that must be bound first and is not (--ready_names); empty: none.
  std::string missing_name;
};

// State of the server, and why.
struct Health {
  HealthState state = HealthState::kStarting;
  // True if only a new process mends it. Every call ends with UNAVAILABLE.
  bool is_fatal = false;
  std::string reason;  // for people; empty while all is well

  // The process does its work, or is about to, or is about to end: nothing is
  // gained by ending it.
  bool is_live() const { return state != HealthState::kFailed; }
  // Calls are welcome.
  bool is_ready() const { return state == HealthState::kServing; }
};

// Returns the gravest state that a fact gives cause for: a lost device, a
// launch that hangs, a drain, a listener that does not answer, the start,
// layers that are still read, a name that is missing.
Health DecideHealth(const HealthFacts& facts);

}  // namespace qgemm

#endif  // QGEMM_SERVER_HEALTH_HEALTH_H_
