// SPDX-License-Identifier: Apache-2.0
//
// Starts the lanes, looks at them every 100 ms, adds them up.

#include "loadtest/engine/load_generator.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "loadtest/engine/block_series.h"

namespace qgemm {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(100);
// So that every lane is ready when the first request is due.
constexpr absl::Duration kLeadTime = absl::Milliseconds(10);

using Lanes = std::vector<std::unique_ptr<Lane>>;

void MergeErrors(const std::map<absl::StatusCode, ErrorTally>& from,
                 std::map<absl::StatusCode, ErrorTally>* into) {
  for (const auto& [code, tally] : from) {
    ErrorTally& sum = (*into)[code];
    if (sum.count == 0) sum.first_message = tally.first_message;
    sum.count += tally.count;
    if (!tally.latency_ns.has_value()) continue;
    if (!sum.latency_ns.has_value()) sum.latency_ns.emplace();
    sum.latency_ns->Merge(*tally.latency_ns);
  }
}

void MergeServer(const ServerHistograms& from, ServerHistograms* into) {
  into->queue_ns.Merge(from.queue_ns);
  into->host_to_device_ns.Merge(from.host_to_device_ns);
  into->kernel_ns.Merge(from.kernel_ns);
  into->device_to_host_ns.Merge(from.device_to_host_ns);
  into->device_ns.Merge(from.device_ns);
  into->total_ns.Merge(from.total_ns);
  into->launch_rows.Merge(from.launch_rows);
  into->launch_requests.Merge(from.launch_requests);
}

void Merge(const RunResult& lane, RunResult* all) {
  all->measured = std::max(all->measured, lane.measured);
  all->due += lane.due;
  all->sent += lane.sent;
  all->answers += lane.answers;
  all->rows += lane.rows;
  all->bytes_sent += lane.bytes_sent;
  all->bytes_received += lane.bytes_received;
  all->warmup_answers += lane.warmup_answers;
  all->expired += lane.expired;
  all->cancelled += lane.cancelled;
  all->disconnected += lane.disconnected;
  MergeErrors(lane.errors, &all->errors);
  for (size_t i = 0; i < all->classes.size(); ++i) {
    all->classes[i].latency_ns.Merge(lane.classes[i].latency_ns);
    all->classes[i].send_latency_ns.Merge(lane.classes[i].send_latency_ns);
  }
  all->lag_ns.Merge(lane.lag_ns);
  MergeServer(lane.server, &all->server);
}

// Turns what the lanes counted between two looks into points of the series.
class SeriesBuilder {
 public:
  // `start` is when requests begin to count.
  SeriesBuilder(absl::Time first, absl::Time start)
      : from_(first), start_(start) {}

  // Where the interval began that the next look ends.
  absl::Time from() const { return from_; }

  SeriesPoint Look(const Lanes& lanes, absl::Time now) {
    sum_.Clear();
    SeriesPoint point;
    for (const std::unique_ptr<Lane>& lane : lanes) {
      fresh_->Clear();
      lane->TakeInterval(&fresh_);
      sum_.Merge(*fresh_);
      point.in_flight += lane->in_flight();
    }
    point.start = from_ - start_;
    point.length = now - from_;
    point.answers = sum_.latency_ns.count();
    point.rows = sum_.rows;
    point.errors = sum_.errors;
    point.p50_ns = sum_.latency_ns.Percentile(50);
    point.p99_ns = sum_.latency_ns.Percentile(99);
    point.max_ns = sum_.latency_ns.max();
    point.max_lag_ns = sum_.max_lag_ns;
    point.launch_rows =
        sum_.launch_rows /
        static_cast<double>(std::max<int64_t>(1, point.answers));
    if (from_ >= start_) blocks_.Append(sum_.counted_ns);
    from_ = now;
    points_.push_back(point);
    return point;
  }

  void MoveInto(RunResult* result) {
    result->series = std::move(points_);
    result->blocks_ns = blocks_.Take();
  }

 private:
  absl::Time from_;
  const absl::Time start_;
  std::unique_ptr<IntervalCounts> fresh_ = std::make_unique<IntervalCounts>();
  IntervalCounts sum_;
  BlockSeries blocks_;
  std::vector<SeriesPoint> points_;
};

bool AllDone(const Lanes& lanes) {
  return std::all_of(lanes.begin(), lanes.end(),
                     [](const auto& lane) { return lane->done(); });
}

// Looks at the lanes until they are done. When `stop` ended them early;
// InfiniteFuture if it did not.
absl::Time Watch(const Lanes& lanes, const LaneParts& parts,
                 const std::atomic<bool>& stop, const LiveView& live,
                 SeriesBuilder* series) {
  absl::Time stopped = absl::InfiniteFuture();
  absl::Time next = series->from() + kInterval;
  while (!AllDone(lanes)) {
    const absl::Time now = parts.clock->Now();
    if (stop.load(std::memory_order_relaxed) &&
        stopped == absl::InfiniteFuture()) {
      stopped = now;
      for (const auto& lane : lanes) lane->Stop();
    }
    if (now < next) {
      absl::SleepFor(std::min(next - now, absl::Milliseconds(20)));
      continue;
    }
    for (const auto& lane : lanes) lane->GiveUpOverdue();
    const SeriesPoint point = series->Look(lanes, now);
    if (live) live(point);
    next = std::max(next + kInterval, now);
  }
  return stopped;
}

}  // namespace

absl::StatusOr<RunResult> GenerateLoad(const GeneratorOptions& options,
                                       const LaneParts& parts,
                                       const std::atomic<bool>& stop,
                                       const LiveView& live) {
  Lanes lanes;
  for (int i = 0; i < DueRequests::LanesOf(options); ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<Lane> lane,
                     Lane::Create(options, i, parts));
    lanes.push_back(std::move(lane));
  }
  const absl::Time start = parts.clock->Now() + kLeadTime;
  const absl::Time counted_from = start + options.warmup;
  for (const auto& lane : lanes) lane->Start(start);
  SeriesBuilder series(start, counted_from);
  const absl::Time stopped = Watch(lanes, parts, stop, live, &series);
  for (const auto& lane : lanes) lane->Join();
  series.Look(lanes, parts.clock->Now());
  RunResult result = EmptyResult(options);
  for (const auto& lane : lanes) Merge(lane->TakeResult(), &result);
  result.interrupted = stopped != absl::InfiniteFuture();
  result.warmup = options.warmup;
  result.due_time = std::clamp(stopped - counted_from, absl::ZeroDuration(),
                               options.duration);
  series.MoveInto(&result);
  return result;
}

}  // namespace qgemm
