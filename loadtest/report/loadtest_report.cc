// SPDX-License-Identifier: Apache-2.0

#include "loadtest/report/loadtest_report.h"

namespace qgemm::loadtest {
namespace {

double PerSecond(int64_t count, absl::Duration time) {
  if (time <= absl::ZeroDuration()) return 0;
  return static_cast<double>(count) / absl::ToDoubleSeconds(time);
}

double MicrosecondsPerAnswer(absl::Duration cpu, int64_t answers) {
  if (answers <= 0) return 0;
  return absl::ToDoubleMicroseconds(cpu) / static_cast<double>(answers);
}

}  // namespace

void CountError(const absl::Status& status,
                std::optional<absl::Duration> latency, ErrorTallies* errors) {
  ErrorTally& tally = (*errors)[status.code()];
  if (tally.count++ == 0) tally.first_message = std::string(status.message());
  if (!latency.has_value()) return;
  if (!tally.latency_ns.has_value()) tally.latency_ns.emplace();
  tally.latency_ns->Record(absl::ToInt64Nanoseconds(*latency));
}

void MergeErrors(const ErrorTallies& from, ErrorTallies* into) {
  for (const auto& [code, tally] : from) {
    ErrorTally& sum = (*into)[code];
    if (sum.count == 0) sum.first_message = tally.first_message;
    sum.count += tally.count;
    if (!tally.latency_ns.has_value()) continue;
    if (!sum.latency_ns.has_value()) sum.latency_ns.emplace();
    sum.latency_ns->Merge(*tally.latency_ns);
  }
}

int64_t RunResult::error_count() const {
  int64_t sum = 0;
  for (const auto& [code, tally] : errors) sum += tally.count;
  return sum;
}

Histogram RunResult::latency_ns() const {
  Histogram all;
  for (const ClassResult& each : classes) all.Merge(each.latency_ns);
  return all;
}

Histogram RunResult::send_latency_ns() const {
  Histogram all;
  for (const ClassResult& each : classes) all.Merge(each.send_latency_ns);
  return all;
}

double RunResult::answers_per_second() const {
  return PerSecond(answers, measured);
}

double RunResult::rows_per_second() const { return PerSecond(rows, measured); }

double RunResult::achieved_rate() const { return PerSecond(sent, due_time); }

double RunResult::client_cpu_us_per_answer() const {
  return MicrosecondsPerAnswer(client_cpu, answers);
}

double RunResult::server_cpu_us_per_answer() const {
  return MicrosecondsPerAnswer(server_cpu, answers);
}

absl::string_view Name(Verdict verdict) {
  if (verdict == Verdict::kInterrupted) return "interrupted";
  constexpr absl::string_view kNames[] = {
      "passed",        "errors",       "usage",       "slo missed",
      "generator lag", "wrong answer", "not started", "report not written"};
  return kNames[static_cast<size_t>(verdict)];
}

std::optional<double> Baseline::overhead_us() const {
  if (echo_ns.empty() || gemm_ns.empty() || device_ns.empty()) {
    return std::nullopt;
  }
  return absl::ToDoubleMicroseconds(
      absl::Nanoseconds(gemm_ns.Percentile(50) - echo_ns.Percentile(50) -
                        device_ns.Percentile(50)));
}

const RunResult* LoadtestReport::headline_run() const {
  return headline < runs.size() ? &runs[headline] : nullptr;
}

absl::string_view LoadtestReport::option(absl::string_view name) const {
  for (const auto& [option, value] : options) {
    if (option == name) return value;
  }
  return "";
}

std::optional<TokenFigures> LoadtestReport::tokens(const RunResult& run) const {
  if (calls_of_token == 0) return std::nullopt;
  const auto calls = static_cast<double>(calls_of_token);
  TokenFigures tokens;
  tokens.per_second = run.rows_per_second() / calls;
  if (!run.is_open()) {
    tokens.client_per_second = tokens.per_second / run.concurrency;
  }
  tokens.time = absl::Nanoseconds(run.latency_ns().mean()) * calls;
  return tokens;
}

Verdict LoadtestReport::verdict() const {
  return findings.empty() ? Verdict::kPassed : findings.front().verdict;
}

}  // namespace qgemm::loadtest
