// SPDX-License-Identifier: Apache-2.0
//
// Clients on layers of their own, one of whom asks for far too much. The time
// moves by a launch's length each time that one ends.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/scheduling/launch_planner.h"

namespace qgemm {
namespace {

constexpr absl::Duration kLaunch = absl::Milliseconds(50);
constexpr int64_t kBacklog = 900;
constexpr int64_t kNever = 1'000'000;

class Weights final : public ResidentWeights {
 public:
  Weights() : ResidentWeights(4096, 4096) {}
  int64_t resident_bytes() const override { return 0; }
};

// One request as a client sends it.
struct Sent {
  std::string identity = "uid 1";
  std::string client;
  int64_t layer = 1;
  int64_t rows = 64;
  Priority priority = Priority::kNormal;
  absl::Duration timeout = absl::InfiniteDuration();
};

// A server of which the test ends the launches.
class Planned {
 public:
  explicit Planned(const PolicyOptions& policy = {})
      : planner_(Options(policy)) {}

  static SchedulerOptions Options(const PolicyOptions& policy) {
    SchedulerOptions options;
    options.batching.max_requests = 64;
    options.policy = policy;
    return options;
  }

  const AdmittedRequest* Send(const Sent& sent) {
    auto request = std::make_unique<AdmittedRequest>();
    request->identity = sent.identity;
    request->client = sent.client;
    request->weights = Layer(sent.layer);
    request->m = sent.rows;
    request->priority = sent.priority;
    request->arrival = now_;
    request->deadline = now_ + sent.timeout;
    const AdmittedRequest* const sent_request = request.get();
    planner_.Add(std::move(request));
    Start();
    return sent_request;
  }

  // Launches that ran or waited before that of the request, which just came.
  int64_t LaunchesBefore(const AdmittedRequest* request) {
    for (int64_t launches = 0;; ++launches) {
      if (in_flight_.empty()) return kNever;
      if (Runs(in_flight_.front(), request)) return launches;
      EndLaunch();
    }
  }

  // Ends the launch that began first, if there is one; returns its requests
  // that are complete.
  std::vector<std::unique_ptr<AdmittedRequest>> EndLaunch() {
    now_ += kLaunch;
    if (in_flight_.empty()) return {};
    PlannedLaunch launch = std::move(in_flight_.front());
    in_flight_.erase(in_flight_.begin());
    std::optional<ScheduledRequest> unfinished;
    std::vector<std::unique_ptr<AdmittedRequest>> complete;
    for (ScheduledRequest& scheduled : launch.batch.requests) {
      RowRange& range = scheduled.state.in_launch;
      rows_[scheduled.request->identity] += range.count;
      range = {range.first + range.count, 0};
      scheduled.state.last_launch_end = now_;
      if (scheduled.rows_left() > 0) {
        unfinished = std::move(scheduled);
      } else {
        complete.push_back(std::move(scheduled.request));
      }
    }
    planner_.LaunchEnded(launch.kind, now_, std::move(unfinished));
    Start();
    return complete;
  }

  // Ends launches until the request's own has ended, and one more.
  void Finish(const AdmittedRequest* request) {
    bool ended = false;
    while (!ended) {
      for (const auto& complete : EndLaunch()) {
        ended = ended || complete.get() == request;
      }
    }
    EndLaunch();
  }

  // Rows that ran, by identity.
  int64_t rows(const std::string& identity) const {
    const auto found = rows_.find(identity);
    return found == rows_.end() ? 0 : found->second;
  }
  const std::vector<PlannedLaunch>& in_flight() const { return in_flight_; }
  int64_t waiting() const { return planner_.depth().requests; }

  static bool Runs(const PlannedLaunch& launch,
                   const AdmittedRequest* request) {
    for (const ScheduledRequest& scheduled : launch.batch.requests) {
      if (scheduled.request.get() == request) return true;
    }
    return false;
  }

 private:
  void Start() {
    while (true) {
      PlannedLaunch launch = planner_.Next(now_, &dropped_);
      if (launch.batch.requests.empty()) return;
      in_flight_.push_back(std::move(launch));
    }
  }

  std::shared_ptr<const ResidentWeights> Layer(int64_t layer) {
    std::shared_ptr<const ResidentWeights>& weights = layers_[layer];
    if (weights == nullptr) weights = std::make_shared<Weights>();
    return weights;
  }

  std::map<int64_t, std::shared_ptr<const ResidentWeights>> layers_;
  std::map<std::string, int64_t> rows_;
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  std::vector<DroppedRequest> dropped_;
  std::vector<PlannedLaunch> in_flight_;
  LaunchPlanner planner_;
};

// The i-th request of somebody who asks for too much.
struct Greed {
  std::string name;
  std::function<Sent(int64_t i)> request;
};

Sent Plain(int64_t /*i*/) { return {}; }

std::vector<Greed> Greeds() {
  return {
      {"OneClient", Plain},
      {"InventedClients",
       [](int64_t i) {
         Sent sent;
         sent.client = absl::StrCat("c", i);
         return sent;
       }},
      {"HighPriority",
       [](int64_t) {
         Sent sent;
         sent.priority = Priority::kHigh;
         return sent;
       }},
      {"NearDeadlines",
       [](int64_t i) {
         Sent sent;
         sent.client = absl::StrCat("c", i);
         sent.timeout = kLaunch * (i / 2 + 1) + absl::Milliseconds(1);
         return sent;
       }},
      {"LayersOfTheirOwn",
       [](int64_t i) {
         Sent sent;
         sent.layer = 10 + i;
         return sent;
       }},
      {"SingleRowsOnLayersOfTheirOwn",
       [](int64_t i) {
         Sent sent;
         sent.layer = 10 + i;
         sent.rows = 1;
         sent.priority = Priority::kHigh;
         return sent;
       }},
      {"TheOthersLayer",
       [](int64_t i) {
         Sent sent;
         sent.layer = 0;
         sent.client = absl::StrCat("c", i);
         sent.priority = Priority::kHigh;
         return sent;
       }},
      {"LargeRequests",
       [](int64_t i) {
         Sent sent;
         sent.client = absl::StrCat("c", i);
         sent.rows = i % 2 == 0 ? 2048 : 64;
         return sent;
       }},
      {"LargeRequestsOnly",
       [](int64_t) {
         Sent sent;
         sent.rows = 2048;
         return sent;
       }},
  };
}

class GreedTest : public testing::TestWithParam<std::tuple<Greed, BatchOrder>> {
 protected:
  const Greed& greed() const { return std::get<0>(GetParam()); }

  void FillQueue() {
    for (int64_t i = 0; i < kBacklog; ++i) planned_.Send(greed().request(i));
  }

  static PolicyOptions Ordered(BatchOrder order) {
    PolicyOptions policy;
    policy.order = order;
    return policy;
  }

  Planned planned_{Ordered(std::get<1>(GetParam()))};
};

Sent Modest(int64_t layer = 0) {
  Sent sent;
  sent.identity = "uid 2";
  sent.layer = layer;
  sent.rows = 3;
  return sent;
}

TEST_P(GreedTest, AnotherWaitsForTheLaunchesInFlightAlone) {
  FillQueue();
  EXPECT_LE(planned_.LaunchesBefore(planned_.Send(Modest())), 2);
}

TEST_P(GreedTest, EachRequestOfAnotherDoes) {
  FillQueue();
  for (int i = 0; i < 50; ++i) {
    planned_.EndLaunch();
    const AdmittedRequest* const request = planned_.Send(Modest());
    EXPECT_LE(planned_.LaunchesBefore(request), 2) << "request " << i;
    planned_.Finish(request);
  }
  EXPECT_GT(planned_.waiting(), 0);
}

TEST_P(GreedTest, WhoWalksLayersIsNotDelayedEither) {
  FillQueue();
  for (int i = 0; i < 50; ++i) {
    const AdmittedRequest* const request = planned_.Send(Modest(1000 + i % 7));
    EXPECT_LE(planned_.LaunchesBefore(request), 2) << "request " << i;
    planned_.Finish(request);
  }
}

std::string NameOf(
    const testing::TestParamInfo<std::tuple<Greed, BatchOrder>>& row) {
  const char* const orders[] = {"Oldest", "Chase", "Fullest"};
  return std::get<0>(row.param).name +
         orders[static_cast<int>(std::get<1>(row.param))];
}

INSTANTIATE_TEST_SUITE_P(
    Greeds, GreedTest,
    testing::Combine(testing::ValuesIn(Greeds()),
                     testing::Values(BatchOrder::kOldest, BatchOrder::kChase,
                                     BatchOrder::kFullest)),
    NameOf);

TEST(FairnessTest, ClientsOfOneIdentityTakeTurnsAcrossLayers) {
  Planned planned;
  for (int64_t i = 0; i < kBacklog; ++i) planned.Send({});
  // The lead that a client may have.
  for (int i = 0; i < 4; ++i) planned.EndLaunch();
  for (int i = 0; i < 20; ++i) {
    Sent sent = Modest();
    sent.identity = "uid 1";
    sent.client = "another";
    const AdmittedRequest* const request = planned.Send(sent);
    EXPECT_LE(planned.LaunchesBefore(request), 2) << "request " << i;
    planned.Finish(request);
  }
}

TEST(FairnessTest, RowsOfAllIdentitiesShareALaunch) {
  Planned planned;
  for (int64_t i = 0; i < 3; ++i) planned.Send({});
  for (int64_t uid = 2; uid < 12; ++uid) {
    Sent sent = Modest();
    sent.identity = absl::StrCat("uid ", uid);
    planned.Send(sent);
  }
  planned.EndLaunch();
  EXPECT_EQ(planned.in_flight().back().batch.requests.size(), 10u);
}

// By turns, whatever each one's requests are like.
TEST_P(GreedTest, BacklogsShareTheDeviceEvenly) {
  if (greed().name == "NearDeadlines") GTEST_SKIP() << "its requests expire";
  FillQueue();
  for (int64_t i = 0; i < kBacklog; ++i) {
    Sent sent;
    sent.identity = "uid 2";
    sent.layer = 5;
    sent.priority = Priority::kLow;
    planned_.Send(sent);
  }
  for (int i = 0; i < 200; ++i) planned_.EndLaunch();
  const bool single_rows = greed().name == "SingleRowsOnLayersOfTheirOwn";
  // A launch of one row counts for a tile of 16.
  const int64_t greedy = planned_.rows("uid 1") * (single_rows ? 16 : 1);
  // The lead, and a launch of each that is in flight.
  EXPECT_NEAR(greedy, planned_.rows("uid 2"), 64 + 2 * 512);
}

TEST(FairnessTest, PriorityDecidesBetweenThoseServedEqually) {
  PolicyOptions policy;
  policy.age_cap = absl::Minutes(1);
  Planned planned(policy);
  planned.Send({});
  planned.Send({});
  Sent normal = Modest();
  Sent high = Modest(1);
  high.identity = "uid 3";
  high.priority = Priority::kHigh;
  const AdmittedRequest* const first = planned.Send(normal);
  const AdmittedRequest* const second = planned.Send(high);
  planned.EndLaunch();
  EXPECT_FALSE(Planned::Runs(planned.in_flight().back(), first));
  EXPECT_TRUE(Planned::Runs(planned.in_flight().back(), second));
}

TEST(FairnessTest, DeviceNeverIdlesWhileSomebodyWaits) {
  Planned planned;
  for (int64_t i = 0; i < 100; ++i) {
    Sent sent;
    sent.rows = 2048;
    sent.identity = absl::StrCat("uid ", i % 3);
    planned.Send(sent);
    planned.Send(Modest(i % 5));
  }
  while (planned.waiting() > 1) {
    ASSERT_FALSE(planned.in_flight().empty());
    planned.EndLaunch();
  }
}

}  // namespace
}  // namespace qgemm
