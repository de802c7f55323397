// SPDX-License-Identifier: Apache-2.0

#include "loadtest/engine/load_generator.h"

#include <algorithm>
#include <memory>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "loadtest/engine/sender.h"
#include "loadtest/engine/series.h"

namespace qgemm::loadtest {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(100);
// So that every sender is ready when the first request is due.
constexpr absl::Duration kLeadTime = absl::Milliseconds(10);

using Senders = std::vector<std::unique_ptr<Sender>>;

class Watcher {
 public:
  // Requests are due from `start` on, and count from `counted_from` on.
  Watcher(const Senders& senders, absl::Time start, absl::Time counted_from)
      : senders_(senders), from_(start), counted_from_(counted_from) {}

  // Returns the time at which `stop` ended the run early, else InfiniteFuture.
  absl::Time Watch(const std::atomic<bool>& stop, const LiveView& live) {
    absl::Time stopped = absl::InfiniteFuture();
    absl::Time next = from_ + kInterval;
    while (!AllDone()) {
      const absl::Time now = SteadyClock().Now();
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

  // Ends the open interval at `now` and adds its point.
  SeriesPoint EndInterval(absl::Time now) {
    sum_.Clear();
    SeriesPoint point;
    for (const auto& sender : senders_) {
      fresh_->Clear();
      sender->TakeInterval(&fresh_);
      sum_.Merge(*fresh_);
      point.in_flight += sender->in_flight();
    }
    point.start = from_ - counted_from_;
    point.length = now - from_;
    point.answers = sum_.latency_ns.count();
    point.rows = sum_.rows;
    point.errors = sum_.errors;
    point.p50_ns = sum_.latency_ns.Percentile(50);
    point.p99_ns = sum_.latency_ns.Percentile(99);
    point.max_ns = sum_.latency_ns.max();
    point.max_lag_ns = sum_.max_lag_ns;
    point.launch_rows = sum_.launch_rows / std::max<double>(1, point.answers);
    if (from_ >= counted_from_) blocks_.Append(sum_.counted_ns);
    from_ = now;
    points_.push_back(point);
    return point;
  }

  void MoveSeriesInto(RunResult* result) {
    result->series = std::move(points_);
    result->blocks_ns = blocks_.Take();
  }

 private:
  bool AllDone() const {
    return std::all_of(senders_.begin(), senders_.end(),
                       [](const auto& sender) { return sender->done(); });
  }

  const Senders& senders_;
  absl::Time from_;  // of the open interval
  const absl::Time counted_from_;
  BlockSeries blocks_;
  std::vector<SeriesPoint> points_;
  std::unique_ptr<IntervalCounts> fresh_ = std::make_unique<IntervalCounts>();
  IntervalCounts sum_;
};

class NullTransport final : public Transport {
 public:
  explicit NullTransport(RequestSink* sink) : sink_(sink) {}

  void Start(int slot, int, absl::Duration) override {
    ends_.Submit([this, slot] { sink_->OnEnd(slot, EndedRequest()); });
  }

  void Cancel(int) override {}  // too late: its end is queued

 private:
  RequestSink* const sink_;
  WorkerPool ends_{1};
};

}  // namespace

OpenTransport NullTransports() {
  return [](int, RequestSink* sink) -> OpenedTransport {
    return std::make_unique<NullTransport>(sink);
  };
}

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
  const absl::Time start = SteadyClock().Now() + kLeadTime;
  const absl::Time counted_from = start + options.warmup;
  for (const auto& sender : senders) sender->Start(start);
  Watcher watcher(senders, start, counted_from);
  const absl::Time stopped = watcher.Watch(stop, live);
  for (const auto& sender : senders) sender->Join();
  watcher.EndInterval(SteadyClock().Now());
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
