// SPDX-License-Identifier: Apache-2.0
//
// Everything that a load test found out, as plain values, before it becomes a
// table or JSON: measurements of its runs, which the engine fills in, and what
// they amount to.

#ifndef QGEMM_LOADTEST_REPORT_LOADTEST_REPORT_H_
#define QGEMM_LOADTEST_REPORT_LOADTEST_REPORT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/histogram.h"
#include "qgemm/server_info.h"

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

using ErrorTallies = std::map<absl::StatusCode, ErrorTally>;

// Adds an error and, if it was sent, the time until it came.
void CountError(const absl::Status& status,
                std::optional<absl::Duration> latency, ErrorTallies* errors);
void MergeErrors(const ErrorTallies& from, ErrorTallies* into);

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
  ErrorTallies errors;

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

// Outcome of a load test; the value is the exit code.
enum class Verdict : uint8_t {
  kPassed = 0,
  kErrors = 1,         // requests failed, none was answered, or clean-up failed
  kUsage = 2,          // wrong command line; never in a report
  kSloMissed = 3,      // a percentile above --slo
  kLag = 4,            // the generator was later than --max_lag
  kWrongAnswer = 5,    // --verify found one
  kNotStarted = 6,     // no server, unknown weights, a refused upload
  kNotWritten = 7,     // a report file could not be written
  kInterrupted = 130,  // by a signal
};

// "passed", "errors", "slo missed", …
absl::string_view Name(Verdict verdict);

struct Finding {
  Verdict verdict = Verdict::kPassed;
  std::string message;  // one line for people
};

struct LoadtestEnvironment {
  std::string version;        // the load test's
  int client_cpus = 0;        // hardware threads of the client's machine
  std::string client_cpu;     // their model; empty if unknown
  std::string client_system;  // operating system and release
  std::string transport;      // tcp or unix
  ServerInfo server;
};

// Rates and times of tokens, of a model that clients walk through.
struct TokenFigures {
  double per_second = 0;  // of all clients together
  // Closed loops: of one client, in all its rows together.
  std::optional<double> client_per_second;
  // Mean time of a token: that of all its calls, one after the other.
  absl::Duration time;
};

// The layers under load.
struct WeightsSummary {
  std::string text;  // "kbit4 4096x14336", "kbit4 llama3-8b, 224 layers"
  std::vector<std::string> formats;
  int64_t layers = 0;
  int64_t programs = 0;  // over them, which requests call
  int64_t resident_bytes = 0;
  int64_t largest_k = 0;
  int64_t largest_n = 0;
};

// Rate of echoes from as many closed loops, over as many connections, as the
// run has.
struct EchoRate {
  int64_t clients = 0;
  double per_second = 0;
};

// The cost of the same bytes without the service: a raw echo over the same
// transport, idle server, one in flight. A request's time without the echo's
// and the device's is the service's own.
struct Baseline {
  int64_t bytes_out = 0;
  int64_t bytes_back = 0;
  Histogram echo_ns;  // round trips
  Histogram gemm_ns;  // round trips of the same shape, one in flight
  // Device time of those products, as the server timed it: copies and kernel.
  Histogram device_ns;
  // If the run has several closed loops: the mean of before and after it.
  std::optional<EchoRate> echo_rate;

  // Median round trip without the medians of echo and device, in microseconds.
  // Absent if one of the three was not measured.
  std::optional<double> overhead_us() const;
};

struct VerifyReport {
  std::string mode = "none";        // none, sample or all
  int64_t answers_compared = 0;     // with the first answer to their input
  int64_t answers_different = 0;    // with other bits than the first
  int64_t elements_checked = 0;     // against fp64
  double worst_tolerance_used = 0;  // largest error / tolerance; above 1: wrong
  absl::Status status;              // the first thing found wrong
};

// Result of --find_peak.
struct PeakResult {
  std::string slo;         // as asked: "p99=500us"
  double rate = 0;         // the highest that held, requests/s; 0: none did
  bool confirmed = false;  // a second, longer run at that rate held too
};

struct LoadtestReport {
  // Every flag with its value in effect, in the order of --help.
  std::vector<std::pair<std::string, std::string>> options;
  // Names of the flags whose value is not the default.
  std::vector<std::string> changed_options;
  std::string command;  // command line that runs this again
  std::string title;    // heading of the rendered page
  absl::Time started_at;
  LoadtestEnvironment environment;
  WeightsSummary weights;
  // Calls that a token of a walk takes, one after the other; 0: no walk.
  int64_t calls_of_token = 0;
  // One run, or one per point of a sweep or search, in the order of running.
  std::vector<RunResult> runs;
  size_t headline = 0;  // index of the run whose figures are quoted
  std::optional<Baseline> baseline;
  std::optional<PeakResult> peak;
  VerifyReport verify;
  std::vector<Finding> findings;  // empty: passed

  // Null if nothing ran.
  const RunResult* headline_run() const;
  // Value of a flag; empty if there is no such flag.
  absl::string_view option(absl::string_view name) const;
  // Rows that went through all calls of a walk: tokens of a decoding model.
  // Absent without a walk.
  std::optional<TokenFigures> tokens(const RunResult& run) const;
  // The first finding's verdict.
  Verdict verdict() const;
};

// Lines of a label and its figures. Several runs get a row each, and the lines
// then describe the headline run.
std::string FormatTable(const LoadtestReport& report);

// Goes up when a field changes its meaning or disappears, not when one is
// added.
inline constexpr int kReportSchemaVersion = 3;

// Every figure, with full histograms. docs/load-testing-report.md lists the
// fields; tools/report_data.py reads them. Bytes of text that are not UTF-8
// become U+FFFD; numbers that are not finite become null.
std::string FormatJson(const LoadtestReport& report);

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_REPORT_LOADTEST_REPORT_H_
