// SPDX-License-Identifier: Apache-2.0
//
// Keeps a fixed number of requests in flight for a while and counts what comes
// back. What a request is, and whether its answer is right, others decide.

#ifndef QGEMM_CLIENT_LOADTEST_CLOSED_LOOP_RUNNER_H_
#define QGEMM_CLIENT_LOADTEST_CLOSED_LOOP_RUNNER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "client/gemm.h"
#include "client/loadtest/latency_recorder.h"

namespace qgemm {

struct LoadAnswer {
  std::string c;  // [m, n]
  ServerTimings timings;
};

// What is loaded. Thread-safe.
class LoadTarget {
 public:
  virtual ~LoadTarget() = default;
  // Sends input number `input` and waits for its answer.
  virtual absl::StatusOr<LoadAnswer> Call(int64_t input) = 0;
};

// Looks at answers, outside the measured latency. Thread-safe.
class AnswerObserver {
 public:
  virtual ~AnswerObserver() = default;
  // `sequence` counts the answers of one worker from 0.
  virtual void OnAnswer(int64_t input, int64_t sequence,
                        absl::string_view c) = 0;
};

// Time that only moves forward; its epoch means nothing.
class SteadyClock final : public Clock {
 public:
  absl::Time Now() const override;
};

struct ClosedLoopOptions {
  int concurrency = 1;  // workers, each with one request in flight
  int64_t inputs = 1;   // requests take inputs 0..inputs-1 in turn
  absl::Duration warmup;
  absl::Duration duration;
  // What a worker waits after an error, so that a server that refuses at once
  // is not called in a tight loop.
  absl::Duration pause_after_error = absl::Milliseconds(5);
};

struct ErrorTally {
  int64_t count = 0;
  std::string first_message;
};

// Sums over the measured answers; divide by their count for means.
struct ServerTimingSums {
  absl::Duration queue;
  absl::Duration host_to_device;
  absl::Duration kernel;
  absl::Duration device_to_host;
  absl::Duration total;
  double launch_rows = 0;
  double launch_requests = 0;

  void Add(const ServerTimings& timings);
  void Merge(const ServerTimingSums& other);
};

struct LoopResult {
  // Of requests that started after the warm-up and before the end.
  LatencyRecorder latency;
  ServerTimingSums server;
  // From the end of the warm-up to the last measured answer.
  absl::Duration measured;
  // Answers that started during the warm-up; they count nowhere else.
  int64_t warmup_answers = 0;
  // Of the whole run, warm-up included.
  std::map<absl::StatusCode, ErrorTally> errors;
  bool interrupted = false;

  int64_t error_count() const;
};

// Runs workers until the duration is over or `stop` becomes true, then waits
// for the requests in flight. `observer` may be null.
LoopResult RunClosedLoop(const ClosedLoopOptions& options, LoadTarget* target,
                         AnswerObserver* observer, const Clock& clock,
                         const std::atomic<bool>& stop);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LOADTEST_CLOSED_LOOP_RUNNER_H_
