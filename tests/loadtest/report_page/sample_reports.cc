// SPDX-License-Identifier: Apache-2.0
//
// Draws latencies from log-normal bodies with a rare slow tail.

#include "tests/loadtest/report_page/sample_reports.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace qgemm {
namespace {

using Random = std::mt19937_64;

constexpr double kServerShare = 0.55;  // of a request's time

// How requests of one class go.
struct Behaviour {
  double median_us = 250;
  double spread = 0.22;    // of the logarithm
  double tail = 0.004;     // share of requests that take far longer
  double launch_rows = 6;  // on average
  double late = 0.01;      // share that the generator sent late
};

double LogNormal(double median, double spread, Random* random) {
  std::normal_distribution<double> normal(0, spread);
  return median * std::exp(normal(*random));
}

double DrawLatencyUs(const Behaviour& behaviour, Random* random) {
  std::uniform_real_distribution<double> uniform(0, 1);
  const double body = LogNormal(behaviour.median_us, behaviour.spread, random);
  if (uniform(*random) > behaviour.tail) return body;
  return body + LogNormal(6 * behaviour.median_us, 0.6, random);
}

int64_t Nanoseconds(double us) {
  return static_cast<int64_t>(std::llround(us * 1e3));
}

void RecordServer(double send_us, const Behaviour& behaviour, Random* random,
                  ServerTimes* server) {
  const double total = kServerShare * send_us;
  server->queue_ns.Record(Nanoseconds(0.30 * total));
  server->host_to_device_ns.Record(Nanoseconds(0.09 * total));
  server->kernel_ns.Record(Nanoseconds(0.38 * total));
  server->device_to_host_ns.Record(Nanoseconds(0.12 * total));
  server->total_ns.Record(Nanoseconds(total));
  std::poisson_distribution<int64_t> rows(behaviour.launch_rows);
  const int64_t launch_rows = std::max<int64_t>(1, rows(*random));
  server->launch_rows.Record(launch_rows);
  server->launch_requests.Record(launch_rows);
}

// Latencies of the requests that end in one interval.
struct Interval {
  Histogram latency_ns;
  int64_t answers = 0;
};

void RecordAnswer(const Behaviour& behaviour, Random* random, RunResult* run,
                  ClassResult* result, Interval* interval) {
  std::uniform_real_distribution<double> uniform(0, 1);
  const double send_us = DrawLatencyUs(behaviour, random);
  const double lag_us = uniform(*random) < behaviour.late
                            ? LogNormal(120, 0.8, random)
                            : LogNormal(4, 0.4, random);
  const bool is_open = run->asked_rate > 0;
  const double latency_us = is_open ? send_us + lag_us : send_us;
  result->latency_ns.Record(Nanoseconds(latency_us));
  result->send_latency_ns.Record(Nanoseconds(send_us));
  if (is_open) run->lag_ns.Record(Nanoseconds(lag_us));
  RecordServer(send_us, behaviour, random, &run->server);
  interval->latency_ns.Record(Nanoseconds(latency_us));
  ++interval->answers;
  ++run->answers;
  run->rows += result->m;
}

SeriesPoint PointOf(const Interval& interval, int index, int64_t in_flight) {
  SeriesPoint point;
  point.start = index * absl::Milliseconds(100);
  point.length = absl::Milliseconds(100);
  point.answers = point.rows = interval.answers;
  point.p50_ns = interval.latency_ns.Percentile(50);
  point.p99_ns = interval.latency_ns.Percentile(99);
  point.max_ns = interval.latency_ns.max();
  point.in_flight = in_flight;
  point.launch_rows = 6;
  return point;
}

void FinishRun(RunResult* run) {
  run->due = run->sent = run->answers + run->error_count();
  run->bytes_sent = run->answers * 8192;
  run->bytes_received = run->answers * 28672;
  run->client_cpu = run->answers * absl::Microseconds(31);
  run->server_cpu = run->answers * absl::Microseconds(58);
}

// A second of warm-up, then `seconds` at `rate`, classes in equal shares.
void Simulate(double rate, int seconds, const std::vector<Behaviour>& classes,
              Random* random, RunResult* run) {
  run->warmup = absl::Seconds(1);
  run->measured = run->due_time = absl::Seconds(seconds);
  RunResult warmup = *run;
  const auto per_interval = static_cast<int>(rate / 10);
  std::normal_distribution<double> noise(0, std::sqrt(per_interval));
  int surplus = 0;
  for (int i = -10; i < 10 * seconds; ++i) {
    RunResult* counted = i < 0 ? &warmup : run;
    Interval interval;
    // What one interval has too many the next has too few.
    surplus = i % 2 == 0 ? static_cast<int>(noise(*random)) : -surplus;
    for (int k = 0; k < per_interval + surplus; ++k) {
      const size_t index = k % classes.size();
      Behaviour behaviour = classes[index];
      if (i < -6) behaviour.median_us *= -i - 4;
      RecordAnswer(behaviour, random, counted, &counted->classes[index],
                   &interval);
    }
    std::poisson_distribution<int64_t> in_flight(
        rate * interval.latency_ns.mean() / 1e9);
    run->series.push_back(PointOf(interval, i, in_flight(*random)));
  }
  run->warmup_answers = warmup.answers;
  FinishRun(run);
}

RunResult OpenRun(double rate, int seconds, const Behaviour& behaviour,
                  Random* random) {
  RunResult run;
  run.asked_rate = rate;
  run.concurrency = 256;
  run.classes = {{"m=1", 1, {}, {}}};
  Simulate(rate, seconds, {behaviour}, random, &run);
  return run;
}

Yardstick SampleYardstick(Random* random) {
  Yardstick yardstick;
  yardstick.bytes_out = 8192;
  yardstick.bytes_back = 28672;
  for (int i = 0; i < 1000; ++i) {
    yardstick.echo_ns.Record(Nanoseconds(LogNormal(92, 0.1, random)));
    yardstick.device_ns.Record(Nanoseconds(LogNormal(41, 0.05, random)));
    yardstick.gemm_ns.Record(Nanoseconds(LogNormal(158, 0.1, random)));
  }
  return yardstick;
}

std::vector<std::pair<std::string, std::string>> SampleOptions() {
  return {{"server", "unix:/run/qgemm.sock"},
          {"weights", ""},
          {"synthetic", "4096x14336"},
          {"format", "kbit4"},
          {"dtype", "fp16"},
          {"m", "1"},
          {"arrivals", "poisson"},
          {"rate", "2000"},
          {"duration", "10s"},
          {"warmup", "1s"},
          {"max_in_flight", "256"},
          {"connections", "4"},
          {"timeout", "30s"},
          {"slo", "p99=2ms"},
          {"max_lag", "1ms"},
          {"verify", "sample"},
          {"html", "report.html"},
          {"seed", "1"}};
}

LoadtestEnvironment SampleEnvironment() {
  LoadtestEnvironment environment;
  environment.version = "1.0.0";
  environment.client_cpus = 16;
  environment.client_cpu = "Intel(R) Xeon(R) Platinum 8480+";
  environment.client_system = "Linux 6.1.0";
  environment.transport = "unix";
  environment.server.version = "1.0.0";
  environment.server.backend = "cuda";
  environment.server.device = "NVIDIA H100 80GB HBM3";
  environment.server.device_detail = "compute capability 9.0";
  environment.server.parallelism = 132;
  return environment;
}

LoadtestReport Frame() {
  LoadtestReport report;
  report.title = "Llama 3 8B, one gate matrix";
  report.options = SampleOptions();
  report.command =
      "qgemm_loadtest --server=unix:/run/qgemm.sock --synthetic=4096x14336 "
      "--format=kbit4 --rate=2000 --arrivals=poisson --duration=10s "
      "--slo=p99=2ms --verify=sample --html=report.html";
  report.started_at = absl::FromUnixSeconds(1735689600);
  report.environment = SampleEnvironment();
  report.weights.text = "kbit4 4096x14336";
  report.weights.formats = {"kbit4"};
  report.weights.layers = 1;
  report.weights.resident_bytes = 31 << 20;
  report.weights.largest_k = 4096;
  report.weights.largest_n = 14336;
  report.verify.mode = "sample";
  report.verify.answers_compared = 1250;
  report.verify.elements_checked = 65536;
  report.verify.worst_tolerance_used = 0.173;
  return report;
}

}  // namespace

LoadtestReport OpenReport() {
  Random random(1);
  LoadtestReport report = Frame();
  report.runs = {OpenRun(2000, 10, Behaviour(), &random)};
  report.yardstick = SampleYardstick(&random);
  return report;
}

LoadtestReport SweepReport() {
  Random random(2);
  LoadtestReport report = Frame();
  report.title = "Rate sweep";
  constexpr double kCapacity = 17500;
  for (double rate = 2000; rate <= 18000; rate += 2000) {
    const double load = rate / kCapacity;
    const double free = std::max(0.02, 1 - load);
    Behaviour behaviour;
    behaviour.median_us = 190 + 60 * load / free;
    behaviour.spread = 0.18 + 0.2 * load;
    behaviour.launch_rows = 2 + 28 * load * load;
    RunResult run = OpenRun(rate, 1, behaviour, &random);
    // Beyond its capacity the generator's places in flight run out.
    if (rate > kCapacity) run.measured = run.due_time *= 1.04;
    run.label = absl::StrCat("rate=", rate);
    report.runs.push_back(std::move(run));
  }
  report.headline = 5;
  return report;
}

LoadtestReport PeakReport() {
  LoadtestReport report = SweepReport();
  report.title = "Search for the peak";
  report.peak = PeakResult{"p99=2ms", 14000, true};
  report.headline = 6;
  return report;
}

LoadtestReport FailedReport() {
  Random random(3);
  LoadtestReport report = Frame();
  report.title =
      "Overload <with> \"markup\" & a rather long title of a scenario";
  Behaviour behaviour;
  behaviour.median_us = 3100;
  behaviour.spread = 0.9;
  RunResult run = OpenRun(800, 6, behaviour, &random);
  run.errors[absl::StatusCode::kResourceExhausted] = {
      34, "queue of weights \"<b>gate</b>\" is full: 4096 & more requests"};
  run.errors[absl::StatusCode::kUnavailable] = {3, "\xff\xfe broken bytes"};
  run.expired = 12;
  for (int index : {23, 24, 25, 40}) run.series[index].errors = 9;
  for (int index = 50; index < 54; ++index) {
    run.series[index].answers = 0;
    run.series[index].p50_ns = run.series[index].p99_ns = 0;
    run.series[index].max_ns = 0;
  }
  FinishRun(&run);
  report.runs = {std::move(run)};
  report.verify.answers_different = 2;
  report.verify.status =
      absl::DataLossError("row 1 column 2: 3.5 is not <4> of the oracle");
  report.findings = {
      {Verdict::kErrors, "37 requests failed, most with RESOURCE_EXHAUSTED"},
      {Verdict::kWrongAnswer, "row 1 column 2: 3.5 is not <4>"},
      {Verdict::kSloMissed, "p99 = 24 ms is above --slo=p99=2ms"}};
  return report;
}

LoadtestReport ClassesReport() {
  Random random(4);
  LoadtestReport report = Frame();
  report.title = "Decode beside prefill";
  report.options[13].second = "";
  RunResult run;
  run.concurrency = 16;
  run.classes = {
      {"m=1", 1, {}, {}}, {"m=16", 16, {}, {}}, {"prefill m=256", 256, {}, {}}};
  const std::vector<Behaviour> classes = {{210, 0.2, 0.003, 40, 0},
                                          {340, 0.25, 0.004, 90, 0},
                                          {1900, 0.15, 0.002, 400, 0}};
  Simulate(6000, 5, classes, &random, &run);
  report.runs = {std::move(run)};
  return report;
}

LoadtestReport EmptyReport() {
  LoadtestReport report;
  report.findings = {{Verdict::kNotStarted, "no server at 127.0.0.1:50051"}};
  return report;
}

}  // namespace qgemm
