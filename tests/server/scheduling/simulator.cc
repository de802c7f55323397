// SPDX-License-Identifier: Apache-2.0

#include "tests/server/scheduling/simulator.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/histogram.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

class NoWeights final : public ResidentWeights {
 public:
  // A row takes as long as `row_work` rows of ordinary weights.
  explicit NoWeights(int64_t row_work = 1)
      : ResidentWeights(row_work, kRowMultiplyAdds), row_work_(row_work) {}
  int64_t row_work() const { return row_work_; }
  int64_t resident_bytes() const override { return 0; }

 private:
  const int64_t row_work_;
};

class Simulation {
 public:
  Simulation(const SchedulerOptions& options, const SimulatedLoad& load,
             const SimulatedDevice& device)
      : load_(load), device_(device), planner_(options), random_(load.seed) {
    for (int64_t i = 0; i < load.matrices; ++i) {
      matrices_.push_back(std::make_shared<NoWeights>(load.row_work));
    }
    // The backlog's.
    matrices_.push_back(std::make_shared<NoWeights>(load.backlog.row_work));
    for (int64_t i = 0; i < load.clients; ++i) {
      places_.push_back(RandomInt(0, load.matrices - 1, &random_));
    }
  }

  SimulatedRun Run() {
    for (int64_t i = 0; i < load_.backlog.requests; ++i) AddToBacklog();
    if (load_.pattern == AccessPattern::kOneMatrix) {
      ArriveIn(NextPoissonGap(), 0);
    } else {
      for (int64_t i = 0; i < load_.clients; ++i) ArriveIn(Turnaround(), i);
    }
    while (!events_.empty() && events_.top().time < end_) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.client >= 0) Arrive(event.client);
      if (event.client == kLaunchEnds) EndLaunch();
      Launch();
    }
    return Result();
  }

 private:
  static constexpr int64_t kLaunchEnds = -1;
  static constexpr int64_t kLook = -2;  // at what may launch by now
  static constexpr char kBacklog[] = "backlog";

  struct Event {
    absl::Time time;
    int64_t number = 0;  // of equal times the earlier event comes first
    int64_t client = kLaunchEnds;  // that asks, or kLaunchEnds, or kLook

    friend bool operator>(const Event& a, const Event& b) {
      return std::pair(a.time, a.number) > std::pair(b.time, b.number);
    }
  };

  void ArriveIn(absl::Duration from_now, int64_t client) {
    events_.push({now_ + from_now, ++event_count_, client});
  }

  double Fraction() {  // in (0, 1]
    return static_cast<double>((random_() >> 11) + 1) * 0x1p-53;
  }
  absl::Duration NextPoissonGap() {
    return absl::Seconds(-std::log(Fraction()) / load_.requests_per_second);
  }
  absl::Duration Turnaround() {
    return load_.turnaround * (0.8 + 0.4 * Fraction());
  }

  int64_t NextMatrix(int64_t client) {
    switch (load_.pattern) {
      case AccessPattern::kOneMatrix:
        return 0;
      case AccessPattern::kDecodeWalk:
        return places_[client] = (places_[client] + 1) % load_.matrices;
      case AccessPattern::kRandom:
        return RandomInt(0, load_.matrices - 1, &random_);
    }
    return 0;
  }

  void Arrive(int64_t client) {
    auto request = std::make_unique<AdmittedRequest>();
    request->weights = matrices_[NextMatrix(client)];
    request->m = load_.rows;
    request->client = absl::StrCat(client);
    if (load_.clients_are_identities) request->identity = request->client;
    Queue(std::move(request));
    if (load_.pattern == AccessPattern::kOneMatrix)
      ArriveIn(NextPoissonGap(), 0);
  }

  void AddToBacklog() {
    const SimulatedBacklog& backlog = load_.backlog;
    auto request = std::make_unique<AdmittedRequest>();
    request->weights = matrices_.back();
    request->m = backlog.rows;
    request->identity = kBacklog;
    request->client =
        absl::StrCat("client ", ++backlog_count_ % backlog.client_ids);
    request->priority = backlog.priority;
    Queue(std::move(request));
  }

  void Queue(std::unique_ptr<AdmittedRequest> request) {
    request->arrival = now_;
    QueueDemand demand;
    demand.identity = request->identity;
    demand.client = request->client;
    demand.rows = request->m;
    if (!planner_.CheckRoom(demand).status.ok()) return;
    ended_before_[request.get()] = ended_;
    planner_.Add(std::move(request));
  }

  static int64_t ClientOf(const AdmittedRequest& request) {
    int64_t client = 0;
    CHECK(absl::SimpleAtoi(request.client, &client));
    return client;
  }

  void Launch() {
    while (true) {
      PlannedLaunch launch = planner_.Next(now_, &dropped_);
      if (launch.batch.requests.empty()) break;
      int64_t rows = 0;
      for (const ScheduledRequest& scheduled : launch.batch.requests) {
        rows += scheduled.state.in_launch.count;
        CountWait(*scheduled.request);
      }
      ++started_;
      const auto& weights = static_cast<const NoWeights&>(
          *launch.batch.requests.front().request->weights);
      const double tiles =
          std::max(1.0, static_cast<double>(rows) / device_.tile_rows) *
          static_cast<double>(weights.row_work());
      free_at_ =
          std::max(free_at_, now_ + device_.start) + tiles * device_.tile;
      events_.push({free_at_, ++event_count_, kLaunchEnds});
      in_flight_.push(std::move(launch));
    }
    const absl::Time look = planner_.next_look();
    if (look != absl::InfiniteFuture()) {
      events_.push({look, ++event_count_, kLook});
    }
  }

  // Counts the launches before that of the request, which starts now: those
  // that had begun and not ended when it came, and those that began since.
  void CountWait(const AdmittedRequest& request) {
    const int64_t waited = started_ - ended_before_[&request];
    ended_before_.erase(&request);
    if (request.identity == kBacklog) return;
    most_launches_waited_ = std::max(most_launches_waited_, waited);
  }

  void EndLaunch() {
    PlannedLaunch launch = std::move(in_flight_.front());
    in_flight_.pop();
    ++ended_;
    const bool counts = now_ >= count_from_;
    if (counts) ++launches_;
    for (const ScheduledRequest& scheduled : launch.batch.requests) {
      const AdmittedRequest& request = *scheduled.request;
      if (request.identity == kBacklog) {
        AddToBacklog();
        continue;
      }
      if (counts) {
        latency_ns_.Record(absl::ToInt64Nanoseconds(now_ - request.arrival));
      }
      if (load_.pattern == AccessPattern::kOneMatrix) continue;
      ArriveIn(Turnaround(), ClientOf(request));
    }
    planner_.LaunchEnded(launch.kind, now_, std::nullopt);
  }

  SimulatedRun Result() const {
    SimulatedRun run;
    const auto requests = static_cast<double>(latency_ns_.count());
    run.requests_per_second =
        requests / absl::ToDoubleSeconds(end_ - count_from_);
    run.rows_per_launch = requests / static_cast<double>(launches_);
    run.p50 = absl::Nanoseconds(latency_ns_.Percentile(50));
    run.p99 = absl::Nanoseconds(latency_ns_.Percentile(99));
    run.most_launches_waited = most_launches_waited_;
    return run;
  }

  const SimulatedLoad load_;
  const SimulatedDevice device_;
  LaunchPlanner planner_;
  RandomGenerator random_;
  std::vector<std::shared_ptr<const ResidentWeights>> matrices_;
  std::vector<int64_t> places_;  // of walking clients
  absl::Time now_ = absl::UnixEpoch();
  const absl::Time end_ = now_ + load_.length;
  const absl::Time count_from_ = now_ + load_.length / 5;
  absl::Time free_at_ = now_;  // the device
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
  int64_t event_count_ = 0;
  std::queue<PlannedLaunch> in_flight_;  // in the order in which they end
  std::vector<DroppedRequest> dropped_;
  Histogram latency_ns_;
  int64_t launches_ = 0;
  int64_t backlog_count_ = 0;
  int64_t started_ = 0;  // launches
  int64_t ended_ = 0;
  // Launches that had ended when a request came that waits.
  std::unordered_map<const AdmittedRequest*, int64_t> ended_before_;
  int64_t most_launches_waited_ = 0;
};

}  // namespace

SimulatedRun Simulate(const SchedulerOptions& options,
                      const SimulatedLoad& load,
                      const SimulatedDevice& device) {
  return Simulation(options, load, device).Run();
}

}  // namespace qgemm
