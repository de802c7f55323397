// SPDX-License-Identifier: Apache-2.0
//
// A random value of each type, and structs of them.

#include "tests/loadtest/report/random_report.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace qgemm {

int64_t RandomReport::Whole(int64_t limit) {
  return std::uniform_int_distribution<int64_t>(0, limit)(random_);
}

double RandomReport::Real() {
  return std::uniform_real_distribution<double>(0, 1e6)(random_);
}

std::string RandomReport::Text() {
  constexpr const char* kPieces[] = {"a", "\"", "\\",   "\n", ",",
                                     "é", "\t", "\x01", "0",  "€"};
  std::string text;
  for (int i = Length(); i > 0; --i) text += kPieces[Whole(9)];
  return text;
}

absl::StatusCode RandomReport::Error() {
  return static_cast<absl::StatusCode>(1 + Whole(15));
}

Histogram RandomReport::Values() {
  Histogram values;
  if (Whole(4) == 0) return values;
  std::uniform_real_distribution<double> exponent(0, 12);
  for (int64_t i = 1 + Whole(199); i > 0; --i) {
    values.Record(static_cast<int64_t>(std::pow(10, exponent(random_))),
                  1 + Whole(5));
  }
  return values;
}

LoadtestEnvironment RandomReport::Environment() {
  LoadtestEnvironment environment;
  environment.version = Text();
  environment.client_cpus = static_cast<int>(Whole(1000));
  environment.client_cpu = Text();
  environment.client_system = Text();
  environment.transport = Text();
  ServerDescription& server = environment.server;
  server.version = Text();
  server.backend = Text();
  server.device = Text();
  server.device_detail = Text();
  server.parallelism = Count();
  server.max_message_bytes = Count();
  server.max_n = Count();
  server.max_k = Count();
  server.max_m = Count();
  server.weights_bytes = Count();
  server.weights_budget_bytes = Count();
  for (int i = Length(); i > 0; --i) server.formats.push_back(Text());
  server.uptime = Time();
  return environment;
}

WeightsSummary RandomReport::Weights() {
  WeightsSummary weights;
  weights.text = Text();
  for (int i = Length(); i > 0; --i) weights.formats.push_back(Text());
  weights.layers = Count();
  weights.resident_bytes = Count();
  weights.largest_k = Count();
  weights.largest_n = Count();
  return weights;
}

SeriesPoint RandomReport::Point() {
  SeriesPoint point;
  point.start = Whole(1) == 0 ? Time() : -Time();
  point.length = Time();
  point.answers = Count();
  point.rows = Count();
  point.errors = Count();
  point.p50_ns = Count();
  point.p99_ns = Count();
  point.max_ns = Count();
  point.in_flight = Count();
  point.max_lag_ns = Count();
  point.launch_rows = Real();
  return point;
}

ServerTimes RandomReport::Server() {
  ServerTimes times;
  times.queue_ns = Values();
  times.host_to_device_ns = Values();
  times.kernel_ns = Values();
  times.device_to_host_ns = Values();
  times.device_ns = Values();
  times.total_ns = Values();
  times.launch_rows = Values();
  times.launch_requests = Values();
  return times;
}

void RandomReport::FillCounts(RunResult* run) {
  run->due = Count();
  run->sent = Count();
  run->answers = Count();
  run->rows = Count();
  run->bytes_sent = Count();
  run->bytes_received = Count();
  run->warmup_answers = Count();
  run->expired = Count();
  run->cancelled = Count();
  run->disconnected = Count();
  run->uploads = Count();
  for (int i = Length(); i > 0; --i) {
    ErrorTally& tally = run->errors[Error()] = {Count(), Text()};
    if (Whole(1) == 1) tally.latency_ns = Values();
  }
}

RunResult RandomReport::Run() {
  RunResult run;
  run.label = Text();
  run.asked_rate = Real();
  run.concurrency = static_cast<int>(Whole(1 << 20));
  run.warmup = Time();
  run.measured = Time();
  run.due_time = Time();
  FillCounts(&run);
  for (int i = Length(); i > 0; --i) {
    run.classes.push_back({Text(), Count(), Values(), Values()});
  }
  run.lag_ns = Values();
  run.server = Server();
  for (int i = Length(); i > 0; --i) run.series.push_back(Point());
  for (int i = Length(); i > 0; --i) run.blocks_ns.push_back(Values());
  run.client_cpu = Time();
  run.server_cpu = Time();
  run.interrupted = Whole(1) == 1;
  return run;
}

Yardstick RandomReport::Echo() {
  Yardstick yardstick = {Count(), Count(), Values(), Values(), Values(), {}};
  if (Whole(1) == 1) yardstick.echo_rate = EchoRate{Count(), Real()};
  return yardstick;
}

VerifyReport RandomReport::Verify() {
  VerifyReport verify;
  verify.mode = Text();
  verify.answers_compared = Count();
  verify.answers_different = Count();
  verify.elements_checked = Count();
  verify.worst_tolerance_used = Real();
  if (Whole(1) == 1) verify.status = absl::Status(Error(), Text());
  return verify;
}

LoadtestReport RandomReport::Report() {
  LoadtestReport report;
  for (int i = Length(); i > 0; --i) {
    report.options.emplace_back(absl::StrCat(i, Text()), Text());
  }
  report.command = Text();
  report.title = Text();
  report.started_at = absl::UnixEpoch() + Time();
  report.environment = Environment();
  report.weights = Weights();
  for (int i = Length(); i > 0; --i) report.runs.push_back(Run());
  report.headline = report.runs.empty() ? 0 : Whole(report.runs.size() - 1);
  if (Whole(1) == 1) report.yardstick = Echo();
  if (Whole(1) == 1) report.peak = PeakResult{Text(), Real(), Whole(1) == 1};
  report.verify = Verify();
  for (int i = Length(); i > 0; --i) {
    report.findings.push_back({static_cast<Verdict>(1 + Whole(6)), Text()});
  }
  return report;
}

}  // namespace qgemm
