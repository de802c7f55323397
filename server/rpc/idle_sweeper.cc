// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/idle_sweeper.h"

#include <algorithm>
#include <utility>

namespace qgemm {
namespace {

constexpr absl::Duration kPeriod = absl::Seconds(1);
// A short idle timeout is kept about as precisely.
constexpr int kLooksPerTimeout = 4;
constexpr absl::Duration kRateWindow = absl::Seconds(10);

}  // namespace

Progress ProgressWatch::Look(int64_t count, const ProgressLimits& limits,
                             absl::Time now) {
  if (!watching_) {
    watching_ = true;
    count_ = count;
    changed_ = now;
    window_start_ = now;
    window_count_ = count;
  }
  if (count != count_) {
    count_ = count;
    changed_ = now;
  }
  idle_ = now - changed_;
  if (idle_ >= limits.idle_timeout) return Progress::kIdle;
  const absl::Duration window = now - window_start_;
  if (window < kRateWindow) return Progress::kFine;
  const double least = static_cast<double>(limits.min_bytes_per_second) *
                       absl::ToDoubleSeconds(window);
  const bool is_slow = static_cast<double>(count - window_count_) < least;
  window_start_ = now;
  window_count_ = count;
  return is_slow ? Progress::kSlow : Progress::kFine;
}

IdleSweeper::IdleSweeper(const ProgressLimits& limits, const Clock* clock,
                         ServerMetrics* metrics)
    : limits_(limits), clock_(clock), metrics_(metrics) {}

void IdleSweeper::Start(std::vector<CompletionQueue*> queues,
                        std::function<void(absl::Time now)> also) {
  queues_ = std::move(queues);
  also_ = std::move(also);
  const absl::Duration period =
      std::min(kPeriod, limits_.idle_timeout / kLooksPerTimeout);
  thread_ = std::thread([this, period] { Run(period); });
}

void IdleSweeper::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    stopped_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void IdleSweeper::Sweep(CompletionQueue* queue) {
  queue->Submit([this, queue] {
    AnswersWaiting waiting;
    const SweepRound round = {clock_->Now(), limits_, metrics_, &waiting};
    queue->ForEachLink([&round](QueueLink* link) {
      static_cast<SweptCall*>(link)->Sweep(round);
    });
    Report(queue, waiting);
  });
}

void IdleSweeper::Report(const CompletionQueue* queue,
                         const AnswersWaiting& waiting) {
  MutexLock lock(&reported_mutex_);
  AnswersWaiting& reported = reported_[queue];
  metrics_->AnswersWaitingChanged(waiting.answers - reported.answers,
                                  waiting.bytes - reported.bytes);
  reported = waiting;
}

void IdleSweeper::Run(absl::Duration period) {
  MutexLock lock(&mutex_);
  while (!stopping_) {
    stopped_.WaitFor(&mutex_, period);
    if (stopping_) return;
    for (CompletionQueue* queue : queues_) Sweep(queue);
    if (also_ != nullptr) also_(clock_->Now());
  }
}

}  // namespace qgemm
