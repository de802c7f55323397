// SPDX-License-Identifier: Apache-2.0
//
// Starts the senders, takes their counts every 100 ms, adds them up.

#include "loadtest/engine/load_generator.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "loadtest/engine/sender.h"
#include "loadtest/engine/series.h"

namespace qgemm::loadtest {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(100);
// So that every sender is ready when the first request is due.
constexpr absl::Duration kLeadTime = absl::Milliseconds(10);

using Senders = std::vector<std::unique_ptr<Sender>>;

// Watches started senders until they are done.
class Watcher {
 public:
  // Requests are due from `start` on, and count from `counted_from` on.
  Watcher(const Senders& senders, const Clock* clock, absl::Time start,
          absl::Time counted_from)
      : senders_(senders), clock_(clock), series_(start, counted_from) {}

  // Returns the time at which `stop` ended the run early, else InfiniteFuture.
  absl::Time Watch(const std::atomic<bool>& stop, const LiveView& live) {
    absl::Time stopped = absl::InfiniteFuture();
    absl::Time next = series_.from() + kInterval;
    while (!AllDone()) {
      const absl::Time now = clock_->Now();
      if (stop.load(std::memory_order_relaxed) &&
          stopped == absl::InfiniteFuture()) {
        stopped = now;
        for (const auto& sender : senders_) sender->Stop();
      }
      if (now < next) {
        absl::SleepFor(std::min(next - now, absl::Milliseconds(20)));
        continue;
      }
      for (const auto& sender : senders_) sender->GiveUpOverdue();
      const SeriesPoint point = EndInterval(now);
      if (live) live(point);
      next = std::max(next + kInterval, now);
    }
    return stopped;
  }

  SeriesPoint EndInterval(absl::Time now) {
    sum_.Clear();
    int64_t in_flight = 0;
    for (const auto& sender : senders_) {
      fresh_->Clear();
      sender->TakeInterval(&fresh_);
      sum_.Merge(*fresh_);
      in_flight += sender->in_flight();
    }
    return series_.Add(sum_, in_flight, now);
  }

  void MoveSeriesInto(RunResult* result) { series_.MoveInto(result); }

 private:
  bool AllDone() const {
    return std::all_of(senders_.begin(), senders_.end(),
                       [](const auto& sender) { return sender->done(); });
  }

  const Senders& senders_;
  const Clock* const clock_;
  SeriesBuilder series_;
  std::unique_ptr<IntervalCounts> fresh_ = std::make_unique<IntervalCounts>();
  IntervalCounts sum_;
};

}  // namespace

absl::StatusOr<RunResult> GenerateLoad(const GeneratorOptions& options,
                                       const GeneratorParts& parts,
                                       const std::atomic<bool>& stop,
                                       const LiveView& live) {
  Senders senders;
  for (int i = 0; i < DueRequests::SendersOf(options); ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<Sender> sender,
                     Sender::Create(options, i, parts));
    senders.push_back(std::move(sender));
  }
  const absl::Time start = parts.clock->Now() + kLeadTime;
  const absl::Time counted_from = start + options.warmup;
  for (const auto& sender : senders) sender->Start(start);
  Watcher watcher(senders, parts.clock, start, counted_from);
  const absl::Time stopped = watcher.Watch(stop, live);
  for (const auto& sender : senders) sender->Join();
  watcher.EndInterval(parts.clock->Now());
  RunResult result = EmptyResult(options);
  for (const auto& sender : senders) {
    MergeCounts(sender->TakeResult(), &result);
  }
  result.interrupted = stopped != absl::InfiniteFuture();
  result.warmup = options.warmup;
  result.due_time = std::clamp(stopped - counted_from, absl::ZeroDuration(),
                               options.duration);
  watcher.MoveSeriesInto(&result);
  return result;
}

}  // namespace qgemm::loadtest
