// SPDX-License-Identifier: Apache-2.0
//
// Measurements of one run of the load generator: counts, histograms and a time
// series. Plain values; the engine fills them in, the report shows them.

#ifndef QGEMM_LOADTEST_REPORT_RUN_RESULT_H_
#define QGEMM_LOADTEST_REPORT_RUN_RESULT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/histogram.h"

namespace qgemm::loadtest {

// Requests with the same number of rows.
struct ClassResult {
  std::string name;  // "m=1", "prefill m=2048"
  int64_t m = 0;     // rows per request
  // Latency of answers from the intended start: for open arrivals when the
  // request was due, for closed loops when it was sent.
  Histogram latency_ns;
  // The same from the actual send.
  Histogram send_latency_ns;
};

// Stages of the answers as the server timed them, and the launches that they
// shared.
struct ServerHistograms {
  Histogram queue_ns;
  Histogram host_to_device_ns;
  Histogram kernel_ns;
  Histogram device_to_host_ns;
  Histogram device_ns;  // the sum of the three
  Histogram total_ns;
  Histogram launch_rows;
  Histogram launch_requests;
};

struct ErrorTally {
  int64_t count = 0;
  std::string first_message;
  // Time from sending to the error; absent if nothing was sent.
  std::optional<Histogram> latency_ns = std::nullopt;
};

// One interval of the time series, by when requests ended.
struct SeriesPoint {
  absl::Duration start;   // since the measurement began; below 0 in warm-up
  absl::Duration length;  // 100 ms, or less for the last
  int64_t answers = 0;
  int64_t rows = 0;    // in the answers
  int64_t errors = 0;  // ends that ErrorTally counts
  int64_t p50_ns = 0;  // latency from the intended start; 0: no answers
  int64_t p99_ns = 0;
  int64_t max_ns = 0;
  int64_t in_flight = 0;   // when the interval ended
  int64_t max_lag_ns = 0;  // among requests sent in the interval
  double launch_rows = 0;  // mean over the answers
};

// Requests count if they were due after the warm-up and before the end.
struct RunResult {
  // Name among the runs of a sweep or search: "rate=2000"; empty if there is
  // one run.
  std::string label;
  double asked_rate = 0;  // open arrivals: requests/s on average; 0: closed
  int concurrency = 1;    // most requests in flight
  absl::Duration warmup;
  // Time from the end of the warm-up to the last counted end.
  absl::Duration measured;
  // The part of that in which requests were due: the asked duration, less if
  // interrupted. Rates of arrival refer to it.
  absl::Duration due_time;

  // Counts of the open arrivals if there are any, else of the closed loops.
  int64_t due = 0;   // arrivals that were due (open); requests sent (closed)
  int64_t sent = 0;  // requests started, among those due
  int64_t answers = 0;
  int64_t rows = 0;            // in the answers
  int64_t bytes_sent = 0;      // operands of answered requests
  int64_t bytes_received = 0;  // their results
  int64_t warmup_answers = 0;  // due during the warm-up; count nowhere else

  // Ends that the run itself asked for; they are not errors.
  int64_t expired = 0;       // --deadline passed
  int64_t cancelled = 0;     // by --cancel_rate
  int64_t disconnected = 0;  // in flight when --disconnect_rate cut
  // All other ends but answers, over the whole run, warm-up included.
  std::map<absl::StatusCode, ErrorTally> errors;

  std::vector<ClassResult> classes;  // one or more
  Histogram lag_ns;  // open arrivals: how late the generator sent, waits for a
                     // free place in flight not counted
  ServerHistograms server;
  std::vector<SeriesPoint> series;
  // Latencies from the intended start in consecutive stretches of equal
  // length, to a precision of 1/64. tools/compare_reports.py draws confidence
  // intervals from how much they differ.
  std::vector<Histogram> blocks_ns;

  absl::Duration client_cpu;  // processor time of this process
  absl::Duration server_cpu;  // the same of the server; zero if unknown
  int64_t uploads = 0;        // made by --churn
  bool interrupted = false;   // by a signal

  int64_t error_count() const;
  // Latencies of all classes.
  Histogram latency_ns() const;
  Histogram send_latency_ns() const;
  double answers_per_second() const;
  double rows_per_second() const;
  // Arrivals sent per second of due time.
  double achieved_rate() const;
  // Processor time per answer; 0 without answers.
  double client_cpu_us_per_answer() const;
  double server_cpu_us_per_answer() const;
  bool is_open() const { return asked_rate > 0; }
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_REPORT_RUN_RESULT_H_
