// SPDX-License-Identifier: Apache-2.0
//
// Sums and rates over a run's counts.

#include "loadtest/report/run_result.h"

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

}  // namespace qgemm::loadtest
