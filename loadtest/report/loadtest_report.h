// SPDX-License-Identifier: Apache-2.0
//
// Everything that a load test found out, before it becomes a table or JSON.

#ifndef QGEMM_LOADTEST_REPORT_LOADTEST_REPORT_H_
#define QGEMM_LOADTEST_REPORT_LOADTEST_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/histogram.h"
#include "loadtest/report/run_result.h"
#include "qgemm/server_info.h"

namespace qgemm::loadtest {

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

// The layers under load.
struct WeightsSummary {
  std::string text;  // "kbit4 4096x14336", "llama3-8b, kbit4, 224 layers"
  std::vector<std::string> formats;
  int64_t layers = 0;
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
  // Rows per second that went through all layers of a --walk: tokens of a
  // decoding model. Absent without a walk.
  std::optional<double> tokens_per_second(const RunResult& run) const;
  // The first finding's verdict.
  Verdict verdict() const;
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_REPORT_LOADTEST_REPORT_H_
