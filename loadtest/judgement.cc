// SPDX-License-Identifier: Apache-2.0

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "loadtest/runner.h"

namespace qgemm::loadtest {
namespace {

std::string Prefix(const RunResult& run) {
  return run.label.empty() ? "" : absl::StrCat(run.label, ": ");
}

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

bool KeepsRate(const RunResult& run) {
  return static_cast<double>(run.sent) >=
         kKeptShare * static_cast<double>(run.due);
}

void AddErrors(const LoadtestReport& report, const LoadtestOptions& options,
               std::vector<Finding>* findings) {
  for (const RunResult& run : report.runs) {
    const std::vector<std::string> errors = ErrorsOf(run, options);
    if (!errors.empty()) {
      findings->push_back(
          {Verdict::kErrors, absl::StrCat(Prefix(run), "requests failed: ",
                                          absl::StrJoin(errors, "; "))});
    } else if (run.answers == 0 && !run.interrupted &&
               run.due_time > absl::ZeroDuration()) {
      findings->push_back(
          {Verdict::kErrors, absl::StrCat(Prefix(run),
                                          "no request that counts "
                                          "was answered")});
    }
  }
}

void AddLag(const LoadtestReport& report, const LoadtestOptions& options,
            std::vector<Finding>* findings) {
  for (const RunResult& run : report.runs) {
    if (!IsLate(run, options)) continue;
    findings->push_back(
        {Verdict::kLag,
         absl::StrFormat(
             "%sthe generator itself was late: p99 of its lag is "
             "%s, above --max_lag=%s; give it more --threads or "
             "a machine of its own",
             Prefix(run),
             absl::FormatDuration(absl::Nanoseconds(run.lag_ns.Percentile(99))),
             absl::FormatDuration(options.arrivals.max_lag))});
  }
}

void AddMissedSlo(const LoadtestReport& report, const LoadtestOptions& options,
                  std::vector<Finding>* findings) {
  if (options.slo.empty()) return;
  if (report.peak.has_value()) {
    if (report.peak->rate > 0 && report.peak->confirmed) return;
    findings->push_back(
        {Verdict::kSloMissed,
         report.peak->rate > 0
             ? absl::StrFormat("%.0f requests/s held %s, but no longer run "
                               "confirmed it",
                               report.peak->rate, report.peak->slo)
             : absl::StrCat("no rate held ", report.peak->slo)});
    return;
  }
  for (const RunResult& run : report.runs) {
    std::vector<std::string> missed = MissedBounds(run, options.slo);
    if (!KeepsRate(run)) {
      missed.push_back(absl::StrCat(run.due - run.sent, " of ", run.due,
                                    " due requests were never sent"));
    }
    if (missed.empty()) continue;
    findings->push_back(
        {Verdict::kSloMissed,
         absl::StrCat(Prefix(run), absl::StrJoin(missed, "; "))});
  }
}

}  // namespace

std::vector<Finding> Judge(const LoadtestReport& report,
                           const LoadtestOptions& options) {
  std::vector<Finding> findings;
  if (!report.verify.status.ok()) {
    findings.push_back(
        {Verdict::kWrongAnswer, std::string(report.verify.status.message())});
  }
  for (const RunResult& run : report.runs) {
    if (!run.interrupted) continue;
    findings.push_back({Verdict::kInterrupted,
                        "stopped by a signal; what was measured so far"});
  }
  // Runs beyond a peak are to fail; where there is none, errors may say why.
  const bool has_peak = report.peak.has_value() && report.peak->rate > 0;
  if (!has_peak) AddErrors(report, options, &findings);
  if (!report.peak.has_value()) AddLag(report, options, &findings);
  // A sweep is to show where bounds are missed, not to fail there.
  if (options.sweep.values.empty()) AddMissedSlo(report, options, &findings);
  return findings;
}

bool Holds(const RunResult& run, const LoadtestOptions& options) {
  return ErrorsOf(run, options).empty() && KeepsRate(run) &&
         !IsLate(run, options) && MissedBounds(run, options.slo).empty();
}

}  // namespace qgemm::loadtest
