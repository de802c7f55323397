// SPDX-License-Identifier: Apache-2.0
//
// Invariants of every schedule, checked on thousands of random ones against a
// fake device in simulated time.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/scheduling/launch_planner.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

constexpr int kSchedules = 3000;
constexpr int64_t kMultiplyAddsPerRow = 64 * 64;

class Weights final : public ResidentWeights {
 public:
  Weights() : ResidentWeights(64, 64) {}
  int64_t resident_bytes() const override { return 0; }
};

// One schedule: random steps, then all waiting requests run.
class Schedule {
 public:
  explicit Schedule(uint64_t seed)
      : random_(seed), options_(RandomOptions()), planner_(options_) {
    for (int i = 0; i < 3; ++i) weights_.push_back(std::make_shared<Weights>());
  }

  void Run() {
    const int64_t steps = Draw(20, 200);
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t kind = Draw(0, 9);
      if (kind < 5) {
        Arrive();
      } else if (kind < 8) {
        EndLaunch();
      } else {
        now_ += absl::Microseconds(Draw(1, 2000));
      }
      StartLaunches();
    }
    while (!in_flight_.empty()) {
      EndLaunch();
      StartLaunches();
    }
    CheckEnd();
  }

 private:
  // Expected state of a request, kept beside the planner.
  struct Known {
    std::string client;
    int64_t rows = 0;
    int64_t next_row = 0;
    absl::Time waiting_since;
    bool refused = false;
    bool dropped = false;
    bool in_flight = false;
    int64_t launches_meanwhile = 0;  // while it was old and waited
  };

  int64_t Draw(int64_t low, int64_t high) {
    return RandomInt(low, high, &random_);
  }

  SchedulerOptions RandomOptions() {
    SchedulerOptions options;
    options.max_queued_requests = Draw(1, 60);
    options.max_launches_in_flight = static_cast<int>(Draw(1, 3));
    options.batching.max_requests = Draw(0, 2) == 0 ? 1 : 64;
    options.batching.chunks.max_rows = 32 * Draw(1, 4);
    if (Draw(0, 3) == 0) {
      options.batching.max_multiply_adds = kMultiplyAddsPerRow * Draw(8, 100);
    }
    options.max_client_queued_rows = Draw(0, 3) == 0 ? Draw(1, 300) : 0;
    options.policy.order = std::array{BatchOrder::kOldest, BatchOrder::kChase,
                                      BatchOrder::kFullest}[Draw(0, 2)];
    return options;
  }

  std::unique_ptr<AdmittedRequest> RandomRequest() {
    auto request = std::make_unique<AdmittedRequest>();
    request->weights = RandomElement(weights_, &random_);
    if (Draw(0, 3) == 0) request->signature.mode = ComputeMode::kA32;
    request->m = Draw(0, 5) == 0 ? Draw(65, 300) : Draw(1, 64);
    request->identity = absl::StrCat("uid ", Draw(0, 2));
    request->client = absl::StrCat(Draw(0, 3));
    request->priority = static_cast<Priority>(Draw(0, 2));
    request->arrival = now_;
    if (Draw(0, 4) == 0) {
      request->deadline = now_ + absl::Microseconds(Draw(0, 5000));
    }
    request->cancelled = std::make_shared<std::atomic<bool>>(Draw(0, 9) == 0);
    return request;
  }

  void Arrive() {
    std::unique_ptr<AdmittedRequest> request = RandomRequest();
    QueueDemand demand;
    demand.identity = request->identity;
    demand.client = request->client;
    demand.rows = request->m;
    if (!planner_.CheckRoom(demand).status.ok()) {
      ++refused_;
      return;
    }
    Known& known = known_[request.get()];
    known.client = request->client;
    known.rows = request->m;
    known.waiting_since = now_;
    order_[OrderKey(*request)].push_back(request.get());
    planner_.Add(std::move(request));
    ++accepted_;
  }

  void StartLaunches() {
    while (true) {
      std::vector<DroppedRequest> dropped;
      PlannedLaunch launch = planner_.Next(now_, &dropped);
      for (DroppedRequest& entry : dropped) Drop(std::move(entry));
      if (launch.batch.requests.empty()) return;
      CheckBatch(launch);
      in_flight_.push_back(std::move(launch));
      CheckInFlight();
    }
  }

  void Drop(DroppedRequest entry) {
    const AdmittedRequest& request = *entry.scheduled.request;
    if (entry.reason == DropReason::kDeadline) {
      EXPECT_LE(request.deadline, now_);
    } else {
      EXPECT_TRUE(request.is_cancelled());
    }
    Forget(request);
    ++dropped_;
  }

  void CheckBatch(const PlannedLaunch& launch) {
    const auto& requests = launch.batch.requests;
    const AdmittedRequest& first = *requests.front().request;
    int64_t rows = 0;
    for (const ScheduledRequest& scheduled : requests) {
      const AdmittedRequest& request = *scheduled.request;
      EXPECT_EQ(request.weights, first.weights);
      EXPECT_EQ(request.signature, first.signature);
      EXPECT_GT(request.deadline, now_);
      EXPECT_FALSE(request.is_cancelled());
      rows += scheduled.state.in_launch.count;
      CheckRequest(scheduled);
    }
    EXPECT_LE(static_cast<int64_t>(requests.size()),
              options_.batching.max_requests);
    const bool is_chunk = launch.kind == LaunchKind::kChunk;
    EXPECT_LE(rows, is_chunk ? options_.batching.chunks.max_rows
                             : options_.batching.max_rows);
    if (is_chunk) {
      EXPECT_EQ(requests.size(), 1u);
    }
    if (options_.batching.max_multiply_adds > 0) {
      EXPECT_LE(rows * kMultiplyAddsPerRow,
                options_.batching.max_multiply_adds);
    }
    CheckWaits(launch);
  }

  // First in first out within a client, priority and kind; every row once.
  void CheckRequest(const ScheduledRequest& scheduled) {
    const AdmittedRequest& request = *scheduled.request;
    const RowRange& in_launch = scheduled.state.in_launch;
    ASSERT_EQ(known_.count(&request), 1u);
    Known& known = known_[&request];
    EXPECT_FALSE(known.in_flight);
    EXPECT_EQ(in_launch.first, known.next_row);
    EXPECT_GT(in_launch.count, 0);
    if (!IsLarge(request)) {
      EXPECT_EQ(in_launch.count, request.m);
    }
    std::vector<const AdmittedRequest*>& order = order_[OrderKey(request)];
    const auto waits = [this](const AdmittedRequest* other) {
      return !known_[other].in_flight;
    };
    EXPECT_EQ(*std::find_if(order.begin(), order.end(), waits), &request);
    known.in_flight = true;
    known.launches_meanwhile = 0;
  }

  // No aged request that could launch is passed over by more launches than it
  // takes to serve all waiting requests, half of those launches being aged
  // ones.
  void CheckWaits(const PlannedLaunch& launch) {
    const bool chunks_are_full =
        launch.kind == LaunchKind::kChunk || ChunksInFlight() > 0;
    for (auto& [request, known] : known_) {
      if (known.in_flight) continue;
      if (IsLarge(*request) && chunks_are_full) continue;
      if (now_ - known.waiting_since < options_.policy.age_cap) continue;
      ++known.launches_meanwhile;
      EXPECT_LE(known.launches_meanwhile, kLaunchesForAll);
    }
  }

  bool IsLarge(const AdmittedRequest& request) const {
    return KindOf(request, options_.batching) == LaunchKind::kChunk;
  }

  void CheckInFlight() {
    EXPECT_LE(static_cast<int>(in_flight_.size()),
              options_.max_launches_in_flight);
    EXPECT_LE(ChunksInFlight(), options_.max_chunks_in_flight);
    EXPECT_EQ(planner_.launches_in_flight(),
              static_cast<int>(in_flight_.size()));
  }

  int ChunksInFlight() const {
    return static_cast<int>(std::count_if(
        in_flight_.begin(), in_flight_.end(), [](const PlannedLaunch& launch) {
          return launch.kind == LaunchKind::kChunk;
        }));
  }

  // Ends a random launch in flight.
  void EndLaunch() {
    if (in_flight_.empty()) return;
    const auto place = in_flight_.begin() +
                       Draw(0, static_cast<int64_t>(in_flight_.size()) - 1);
    PlannedLaunch launch = std::move(*place);
    in_flight_.erase(place);
    std::optional<ScheduledRequest> unfinished;
    for (ScheduledRequest& scheduled : launch.batch.requests) {
      RowRange& range = scheduled.state.in_launch;
      range = {range.first + range.count, 0};
      scheduled.state.last_launch_end = now_;
      Known& known = known_[scheduled.request.get()];
      known.in_flight = false;
      known.next_row = range.first;
      known.waiting_since = now_;
      if (scheduled.rows_left() > 0) {
        unfinished = std::move(scheduled);
      } else {
        Forget(*scheduled.request);
        ++computed_;
      }
    }
    planner_.LaunchEnded(launch.kind, now_, std::move(unfinished));
  }

  void Forget(const AdmittedRequest& request) {
    std::vector<const AdmittedRequest*>& order = order_[OrderKey(request)];
    order.erase(std::find(order.begin(), order.end(), &request));
    known_.erase(&request);
  }

  void CheckEnd() {
    EXPECT_EQ(planner_.depth().requests, 0);
    EXPECT_EQ(planner_.depth().rows, 0);
    EXPECT_EQ(planner_.depth().bytes, 0);
    EXPECT_EQ(planner_.launches_in_flight(), 0);
    EXPECT_EQ(accepted_, computed_ + dropped_);
    EXPECT_TRUE(known_.empty());
  }

  // At most 60 requests wait, of at most 300 rows in chunks of 8 at least;
  // every other launch is for the aged.
  static constexpr int64_t kLaunchesForAll = 2 * 2 * 60 * 38;

  using Key = std::tuple<const ResidentWeights*, int, std::string, std::string,
                         Priority, bool>;
  Key OrderKey(const AdmittedRequest& request) const {
    return {request.weights.get(), static_cast<int>(request.signature.mode),
            request.identity,      request.client,
            request.priority,      IsLarge(request)};
  }

  RandomGenerator random_;
  const SchedulerOptions options_;
  LaunchPlanner planner_;
  std::vector<std::shared_ptr<const ResidentWeights>> weights_;
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  std::vector<PlannedLaunch> in_flight_;
  std::map<const AdmittedRequest*, Known> known_;  // that wait or are in flight
  std::map<Key, std::vector<const AdmittedRequest*>> order_;  // of coming
  int64_t accepted_ = 0;
  int64_t refused_ = 0;
  int64_t computed_ = 0;
  int64_t dropped_ = 0;
};

TEST(LaunchPlannerRandomTest, InvariantsHoldInEverySchedule) {
  RandomGenerator random(FreshSeed());
  for (int i = 0; i < kSchedules && !testing::Test::HasFailure(); ++i) {
    const uint64_t seed = random();
    SCOPED_TRACE(testing::Message() << "schedule " << i << ", seed " << seed);
    Schedule(seed).Run();
  }
}

}  // namespace
}  // namespace qgemm
