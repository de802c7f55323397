// SPDX-License-Identifier: Apache-2.0
//
// One thread a request in flight; each counts for itself and the counts are
// merged after the threads have ended.

#include "client/loadtest/closed_loop_runner.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"

namespace qgemm {
namespace {

// What one worker counts. Used by its thread alone until it has ended.
struct WorkerResult {
  LoopResult counts;
  absl::Time last_answer = absl::InfinitePast();
  int64_t answers = 0;
};

// What all workers share.
struct Loop {
  const ClosedLoopOptions& options;
  LoadTarget* target;
  AnswerObserver* observer;
  const Clock& clock;
  const std::atomic<bool>& stop;
  absl::Time warmup_end;
  absl::Time end;
  std::atomic<int64_t> next_input{0};

  void RunWorker(WorkerResult* result);
  void RunRequest(absl::Time start, WorkerResult* result);
};

void CountError(const absl::Status& status, LoopResult* counts) {
  ErrorTally& tally = counts->errors[status.code()];
  if (tally.count++ == 0) tally.first_message = std::string(status.message());
}

void Loop::RunRequest(absl::Time start, WorkerResult* result) {
  const int64_t input = next_input.fetch_add(1) % options.inputs;
  const absl::StatusOr<LoadAnswer> answer = target->Call(input);
  const absl::Time finish = clock.Now();
  if (!answer.ok()) {
    CountError(answer.status(), &result->counts);
    absl::SleepFor(options.pause_after_error);
    return;
  }
  if (start < warmup_end) {
    ++result->counts.warmup_answers;
  } else {
    result->counts.latency.Record(finish - start);
    result->counts.server.Add(answer->timings);
    result->last_answer = std::max(result->last_answer, finish);
  }
  if (observer != nullptr) {
    observer->OnAnswer(input, result->answers, answer->c);
  }
  ++result->answers;
}

void Loop::RunWorker(WorkerResult* result) {
  while (!stop.load(std::memory_order_relaxed)) {
    const absl::Time start = clock.Now();
    if (start >= end) return;
    RunRequest(start, result);
  }
  result->counts.interrupted = true;
}

void MergeInto(const LoopResult& worker, LoopResult* all) {
  all->latency.Merge(worker.latency);
  all->server.Merge(worker.server);
  all->warmup_answers += worker.warmup_answers;
  all->interrupted = all->interrupted || worker.interrupted;
  for (const auto& [code, tally] : worker.errors) {
    ErrorTally& sum = all->errors[code];
    if (sum.count == 0) sum.first_message = tally.first_message;
    sum.count += tally.count;
  }
}

}  // namespace

absl::Time SteadyClock::Now() const {
  return absl::UnixEpoch() +
         absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

void ServerTimingSums::Add(const ServerTimings& timings) {
  queue += timings.queue;
  host_to_device += timings.host_to_device;
  kernel += timings.kernel;
  device_to_host += timings.device_to_host;
  total += timings.total;
  launch_rows += static_cast<double>(timings.launch_rows);
  launch_requests += static_cast<double>(timings.launch_requests);
}

void ServerTimingSums::Merge(const ServerTimingSums& other) {
  queue += other.queue;
  host_to_device += other.host_to_device;
  kernel += other.kernel;
  device_to_host += other.device_to_host;
  total += other.total;
  launch_rows += other.launch_rows;
  launch_requests += other.launch_requests;
}

int64_t LoopResult::error_count() const {
  int64_t sum = 0;
  for (const auto& [code, tally] : errors) sum += tally.count;
  return sum;
}

LoopResult RunClosedLoop(const ClosedLoopOptions& options, LoadTarget* target,
                         AnswerObserver* observer, const Clock& clock,
                         const std::atomic<bool>& stop) {
  const absl::Time warmup_end = clock.Now() + options.warmup;
  Loop loop{options,
            target,
            observer,
            clock,
            stop,
            warmup_end,
            warmup_end + options.duration};
  std::vector<WorkerResult> results(options.concurrency);
  std::vector<std::thread> workers;
  workers.reserve(results.size());
  for (WorkerResult& result : results) {
    workers.emplace_back([&loop, &result] { loop.RunWorker(&result); });
  }
  for (std::thread& worker : workers) worker.join();
  LoopResult all;
  absl::Time last_answer = warmup_end;
  for (const WorkerResult& result : results) {
    MergeInto(result.counts, &all);
    last_answer = std::max(last_answer, result.last_answer);
  }
  all.measured = last_answer - warmup_end;
  return all;
}

}  // namespace qgemm
