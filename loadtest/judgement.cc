// SPDX-License-Identifier: Apache-2.0

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "loadtest/runner.h"

namespace qgemm::loadtest {
namespace {

// Errors that --allow_errors does not name.
std::vector<std::string> ErrorsOf(const RunResult& run,
                                  const LoadtestOptions& options) {
  std::vector<std::string> errors;
  for (const auto& [code, tally] : run.errors) {
    if (options.request.allowed_errors.count(code) > 0) continue;
    errors.push_back(absl::StrCat(tally.count, " ",
                                  absl::StatusCodeToString(code), " (",
                                  tally.first_message, ")"));
  }
  return errors;
}

bool IsLate(const RunResult& run, const LoadtestOptions& options) {
  return absl::Nanoseconds(run.lag_ns.Percentile(99)) >
         options.arrivals.max_lag;
}

// The bounds that the latencies from the intended start miss, for people:
// "p99 is 612us, above 500us". A run without an answer misses every bound.
std::vector<std::string> MissedBounds(const RunResult& run, const Slo& slo) {
  std::vector<std::string> missed;
  const Histogram latency_ns = run.latency_ns();
  for (const LatencyBound& bound : slo) {
    if (latency_ns.empty()) {
      missed.push_back(absl::StrCat(bound.name, " has no answer to be of"));
      continue;
    }
    const absl::Duration value =
        absl::Nanoseconds(latency_ns.Percentile(bound.percent));
    if (value <= bound.limit) continue;
    missed.push_back(absl::StrCat(bound.name, " is ",
                                  absl::FormatDuration(value), ", above ",
                                  absl::FormatDuration(bound.limit)));
  }
  return missed;
}

// Open arrivals keep their rate if they send this share of what was due.
constexpr double kKeptShare = 0.99;

bool KeepsRate(const RunResult& run) {
  return static_cast<double>(run.sent) >=
         kKeptShare * static_cast<double>(run.due);
}

std::vector<std::string> Failures(const RunResult& run,
                                  const LoadtestOptions& options) {
  const std::vector<std::string> errors = ErrorsOf(run, options);
  if (!errors.empty()) {
    return {absl::StrCat("requests failed: ", absl::StrJoin(errors, "; "))};
  }
  const bool silent = run.answers == 0 && !run.interrupted &&
                      run.due_time > absl::ZeroDuration();
  if (silent) return {"no request that counts was answered"};
  return {};
}

std::vector<std::string> Lateness(const RunResult& run,
                                  const LoadtestOptions& options) {
  if (!IsLate(run, options)) return {};
  return {absl::StrCat(
      "the generator itself was late: p99 of its lag is ",
      absl::FormatDuration(absl::Nanoseconds(run.lag_ns.Percentile(99))),
      ", above --max_lag=", absl::FormatDuration(options.arrivals.max_lag),
      "; give it more --threads or a machine of its own")};
}

std::vector<std::string> MissedSlo(const RunResult& run,
                                   const LoadtestOptions& options) {
  if (options.slo.empty()) return {};
  std::vector<std::string> missed = MissedBounds(run, options.slo);
  if (!KeepsRate(run)) {
    missed.push_back(absl::StrCat(run.due - run.sent, " of ", run.due,
                                  " due requests were never sent"));
  }
  return missed;
}

std::string MissedPeak(const PeakResult& peak) {
  if (peak.rate <= 0) return absl::StrCat("no rate held ", peak.slo);
  return absl::StrFormat(
      "%.0f requests/s held %s, but no longer run "
      "confirmed it",
      peak.rate, peak.slo);
}

}  // namespace

std::vector<Finding> Judge(const LoadtestReport& report,
                           const LoadtestOptions& options) {
  std::vector<Finding> findings;
  if (!report.verify.status.ok()) {
    findings.push_back(
        {Verdict::kWrongAnswer, std::string(report.verify.status.message())});
  }
  const auto add = [&](Verdict verdict, auto faults_of) {
    for (const RunResult& run : report.runs) {
      const std::vector<std::string> faults = faults_of(run, options);
      if (faults.empty()) continue;
      const absl::string_view colon = run.label.empty() ? "" : ": ";
      findings.push_back({verdict, absl::StrCat(run.label, colon,
                                                absl::StrJoin(faults, "; "))});
    }
  };
  add(Verdict::kInterrupted, [](const RunResult& run, const auto&) {
    return std::vector<std::string>(run.interrupted ? 1 : 0,
                                    "stopped by a signal");
  });
  // Runs beyond a peak are to fail; where there is none, errors may say why.
  const std::optional<PeakResult>& peak = report.peak;
  if (!peak.has_value() || peak->rate <= 0) add(Verdict::kErrors, Failures);
  if (!peak.has_value()) add(Verdict::kLag, Lateness);
  // A sweep is to show where bounds are missed, not to fail there.
  if (!peak.has_value() && options.sweep.values.empty()) {
    add(Verdict::kSloMissed, MissedSlo);
  }
  if (peak.has_value() && !peak->confirmed) {
    findings.push_back({Verdict::kSloMissed, MissedPeak(*peak)});
  }
  return findings;
}

bool Holds(const RunResult& run, const LoadtestOptions& options) {
  return ErrorsOf(run, options).empty() && KeepsRate(run) &&
         !IsLate(run, options) && MissedBounds(run, options.slo).empty();
}

}  // namespace qgemm::loadtest
