// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/launch_planner.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Weights final : public ResidentWeights {
 public:
  Weights(int64_t n, int64_t k) : ResidentWeights(n, k) {}
  int64_t resident_bytes() const override { return 0; }
};

class LaunchPlannerTest : public testing::Test {
 protected:
  static SchedulerOptions Batched() {
    SchedulerOptions options;
    options.batching.max_requests = 64;
    options.batching.chunks.max_rows = 512;
    return options;
  }

  void Use(const SchedulerOptions& options) {
    planner_ = std::make_unique<LaunchPlanner>(options);
  }

  std::unique_ptr<AdmittedRequest> Make(const std::string& client,
                                        int64_t rows) {
    auto request = std::make_unique<AdmittedRequest>();
    request->weights = weights_;
    request->client = client;
    if (clients_are_identities_) request->identity = client;
    request->m = rows;
    request->a = StagingLease(nullptr, 10 * rows, nullptr);
    request->arrival = now_;
    return request;
  }
  void Add(const std::string& client, int64_t rows) {
    planner_->Add(Make(client, rows));
  }

  // Rows that the next launch runs, by request; nothing if there is no launch.
  std::vector<int64_t> Next() {
    PlannedLaunch launch = planner_->Next(now_, &dropped_);
    std::vector<int64_t> rows;
    for (const auto& request : launch.batch.requests) {
      rows.push_back(request.state.in_launch.count);
    }
    if (!rows.empty()) launches_.push_back(std::move(launch));
    return rows;
  }

  // Ends the oldest launch.
  void EndLaunch() {
    PlannedLaunch launch = std::move(launches_.front());
    launches_.erase(launches_.begin());
    ScheduledRequest& first = launch.batch.requests.front();
    RowRange& range = first.state.in_launch;
    range = {range.first + range.count, 0};
    first.state.last_launch_end = now_;
    std::optional<ScheduledRequest> unfinished;
    if (first.rows_left() > 0) unfinished = std::move(first);
    planner_->LaunchEnded(launch.kind, now_, std::move(unfinished));
  }

  // Launches heavy rows of clients a, b and c together, under kChase.
  void LaunchHeavyRowsOfThree() {
    SchedulerOptions options = Batched();
    options.policy.order = BatchOrder::kChase;
    Use(options);
    weights_ = std::make_shared<Weights>(16384, 8192);
    for (const char* client : {"a", "b", "c"}) Add(client, 1);
    EXPECT_THAT(Next(), ElementsAre(1, 1, 1));
  }

  // The same, and then some of a alone.
  void LaunchHeavyRowsOfOneOfThree(int64_t rows) {
    LaunchHeavyRowsOfThree();
    EndLaunch();
    Add("a", rows);
    EXPECT_THAT(Next(), ElementsAre(rows));
  }

  Refusal Room(const std::string& client, int64_t rows, int64_t bytes) {
    QueueDemand demand;
    demand.client = client;
    if (clients_are_identities_) demand.identity = client;
    demand.rows = rows;
    demand.operand_bytes = bytes;
    return planner_->CheckRoom(demand);
  }

  bool clients_are_identities_ = false;
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  std::shared_ptr<const ResidentWeights> weights_ =
      std::make_shared<Weights>(4096, 4096);
  std::unique_ptr<LaunchPlanner> planner_ =
      std::make_unique<LaunchPlanner>(Batched());
  std::vector<PlannedLaunch> launches_;
  std::vector<DroppedRequest> dropped_;
};

TEST_F(LaunchPlannerTest, LaunchesAtOnceWhileFewerThanAllowedAreInFlight) {
  Add("a", 1);
  EXPECT_THAT(Next(), ElementsAre(1));
  Add("a", 2);
  EXPECT_THAT(Next(), ElementsAre(2));
  Add("a", 3);
  EXPECT_THAT(Next(), ElementsAre());
  EndLaunch();
  EXPECT_THAT(Next(), ElementsAre(3));
}

TEST_F(LaunchPlannerTest, WhatWaitsMeanwhileSharesTheNextLaunch) {
  for (int64_t rows = 1; rows <= 5; ++rows) {
    Add("a", rows);
    if (rows <= 2) Next();
  }
  EndLaunch();
  EXPECT_THAT(Next(), ElementsAre(3, 4, 5));
}

TEST_F(LaunchPlannerTest, HeavyRowsWaitForOthersWhileALaunchIsInFlight) {
  LaunchHeavyRowsOfOneOfThree(1);
  Add("b", 1);
  EXPECT_THAT(Next(), ElementsAre());
  EndLaunch();
  EXPECT_THAT(Next(), ElementsAre(1));
}

TEST_F(LaunchPlannerTest, HeavyRowsOfAllWhoAreNotInFlightLaunchAtOnce) {
  LaunchHeavyRowsOfOneOfThree(1);
  Add("b", 1);
  EXPECT_THAT(Next(), ElementsAre());
  Add("c", 1);
  EXPECT_THAT(Next(), ElementsAre(1, 1));
  // Beside two there is no third.
  Add("d", 1);
  EXPECT_THAT(Next(), ElementsAre());
}

TEST_F(LaunchPlannerTest, HeavyRowsWaitForNobodyWhoHasLeft) {
  LaunchHeavyRowsOfThree();
  for (int i = 0; i < 8; ++i) {
    EndLaunch();
    Add(i % 2 == 0 ? "a" : "b", 1);
    EXPECT_THAT(Next(), ElementsAre(1));
  }
  Add("a", 1);
  EXPECT_THAT(Next(), ElementsAre(1));
}

TEST_F(LaunchPlannerTest, HeavyRowsLeaveWhatTheOtherTurnHasRoomFor) {
  LaunchHeavyRowsOfOneOfThree(20);
  Add("b", 20);
  Add("c", 20);
  EXPECT_THAT(Next(), ElementsAre(20));
  EndLaunch();
  EndLaunch();
  EXPECT_THAT(Next(), ElementsAre(20));
}

// Clients a to d ask for the same again after each launch, which takes 800 us.
class GatheringLaunchTest : public LaunchPlannerTest {
 protected:
  static constexpr absl::Duration kLaunch = absl::Microseconds(800);

  void SetUp() override {
    LaunchAll();
    now_ += kLaunch;
    EndLaunch();
    LaunchAll();
    now_ += kLaunch;
    EndLaunch();
  }
  void LaunchAll() {
    for (const char* client : {"a", "b", "c", "d"}) Add(client, 1);
    EXPECT_THAT(Next(), ElementsAre(1, 1, 1, 1));
  }
};

TEST_F(GatheringLaunchTest, WaitsForTheLastOfThem) {
  for (const char* client : {"a", "b", "c"}) Add(client, 1);
  EXPECT_THAT(Next(), ElementsAre());
  EXPECT_EQ(planner_->next_look(), now_ + kLaunch / 4);
  Add("d", 1);
  EXPECT_THAT(Next(), ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(planner_->next_look(), absl::InfiniteFuture());
}

TEST_F(GatheringLaunchTest, LaunchesWithoutALateOne) {
  for (const char* client : {"a", "b", "c"}) Add(client, 1);
  EXPECT_THAT(Next(), ElementsAre());
  now_ = planner_->next_look();
  EXPECT_THAT(Next(), ElementsAre(1, 1, 1));
}

TEST_F(GatheringLaunchTest, WaitsForTheEndOfTheirLaunch) {
  LaunchAll();
  Add("e", 1);
  EXPECT_THAT(Next(), ElementsAre());
  EXPECT_EQ(planner_->next_look(), absl::InfiniteFuture());
  now_ += kLaunch;
  EndLaunch();
  EXPECT_THAT(Next(), ElementsAre());
  EXPECT_EQ(planner_->next_look(), now_ + kLaunch / 4);
}

TEST_F(GatheringLaunchTest, NearDeadlinesDoNotWait) {
  auto request = Make("a", 1);
  request->deadline = now_ + SchedulerOptions().policy.deadline_slack / 2;
  planner_->Add(std::move(request));
  EXPECT_THAT(Next(), ElementsAre(1));
}

TEST_F(GatheringLaunchTest, DeadlinesThatComeNearEndTheWaitForALaunch) {
  LaunchAll();
  const absl::Duration slack = SchedulerOptions().policy.deadline_slack;
  auto request = Make("a", 1);
  request->deadline = now_ + slack + kLaunch / 2;
  planner_->Add(std::move(request));
  EXPECT_THAT(Next(), ElementsAre());
  EXPECT_EQ(planner_->next_look(), now_ + kLaunch / 2);
  now_ = planner_->next_look();
  EXPECT_THAT(Next(), ElementsAre(1));
}

TEST_F(GatheringLaunchTest, NothingIsWaitedForInADrain) {
  planner_->StopGathering();
  Add("a", 1);
  EXPECT_THAT(Next(), ElementsAre(1));
}

TEST_F(GatheringLaunchTest, ChaseHasTurnsOfItsOwn) {
  LaunchHeavyRowsOfThree();
  now_ += kLaunch;
  EndLaunch();
  for (const char* client : {"a", "b", "c"}) Add(client, 1);
  EXPECT_THAT(Next(), ElementsAre(1, 1, 1));
  now_ += kLaunch;
  EndLaunch();
  Add("a", 1);
  EXPECT_THAT(Next(), ElementsAre(1));
}

TEST_F(GatheringLaunchTest, FullBatchesDoNotWait) {
  Add("a", 64);
  EXPECT_THAT(Next(), ElementsAre(64));
}

TEST_F(GatheringLaunchTest, NobodyWaitsForThoseOfAnotherLayer) {
  Add("a", 1);
  weights_ = std::make_shared<Weights>(4096, 4096);
  Add("b", 1);
  EXPECT_THAT(Next(), ElementsAre(1));
}

TEST_F(LaunchPlannerTest, BatchIsCutAtTilesIfMoreWaits) {
  Add("a", 1);
  Next();
  Next();
  for (int i = 0; i < 4; ++i) Add("a", 12);
  Add("a", 6);
  Add("a", 12);
  EXPECT_THAT(Next(), ElementsAre(12, 12, 12, 12));
  EndLaunch();
  EXPECT_THAT(Next(), ElementsAre(6, 12));
}

TEST_F(LaunchPlannerTest, LargeRequestRunsInChunks) {
  Add("a", 1100);
  EXPECT_THAT(Next(), ElementsAre(384));
  EXPECT_THAT(Next(), ElementsAre());
  EndLaunch();
  EXPECT_EQ(planner_->depth().rows, 1100 - 384);
  EXPECT_THAT(Next(), ElementsAre(384));
  EndLaunch();
  EXPECT_THAT(Next(), ElementsAre(1100 - 2 * 384));
  EndLaunch();
  EXPECT_THAT(Next(), ElementsAre());
  EXPECT_EQ(planner_->depth().requests, 0);
}

TEST_F(LaunchPlannerTest, LaunchesOfAHugeLayerAreCutToTheBound) {
  SchedulerOptions options = Batched();
  options.batching.max_multiply_adds = 5 * weights_->n() * weights_->k();
  Use(options);
  for (int i = 0; i < 2; ++i) {
    Add("a", 1);
    Next();
  }
  for (int i = 0; i < 4; ++i) Add("a", 2);
  Add("b", 12);
  EndLaunch();
  EXPECT_THAT(Next(), ElementsAre(2, 2));
  EndLaunch();
  EXPECT_THAT(Next(), ElementsAre(2, 2));
  EndLaunch();
  EndLaunch();
  for (const int64_t rows : {5, 5, 2}) {
    EXPECT_THAT(Next(), ElementsAre(rows));
    EndLaunch();
  }
  EXPECT_THAT(Next(), ElementsAre());
  EXPECT_EQ(planner_->depth().requests, 0);
}

TEST_F(LaunchPlannerTest, ChunksDoNotDependOnWhatElseWaits) {
  Add("a", 1100);
  Add("b", 700);
  Add("c", 1);
  std::vector<RowRange> ranges;
  for (int i = 0; i < 20; ++i) {
    while (!Next().empty()) {
    }
    if (launches_.empty()) break;
    for (const ScheduledRequest& scheduled : launches_.front().batch.requests) {
      if (scheduled.request->client == "a") {
        ranges.push_back(scheduled.state.in_launch);
      }
    }
    EndLaunch();
  }
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[1].first, 384);
  EXPECT_EQ(ranges[2].first, 768);
}

TEST_F(LaunchPlannerTest, OneSlotIsLeftForSmallRequests) {
  Add("a", 2048);
  Add("b", 2048);
  EXPECT_THAT(Next(), ElementsAre(512));
  EXPECT_THAT(Next(), ElementsAre());
  Add("c", 1);
  EXPECT_THAT(Next(), ElementsAre(1));
}

TEST_F(LaunchPlannerTest, LargeRequestsGetTheirTurnAmongSmallOnes) {
  Add("a", 2048);
  Add("b", 1);
  int64_t chunks = 0;
  for (int i = 0; i < 100 && chunks < 4; ++i) {
    now_ += absl::Microseconds(600);
    Add("b", 1);
    while (!Next().empty()) {
    }
    if (launches_.front().kind == LaunchKind::kChunk) ++chunks;
    EndLaunch();
  }
  EXPECT_EQ(chunks, 4);
}

TEST_F(LaunchPlannerTest, ExpiredRequestsAreDroppedBeforeTheirTurn) {
  for (int i = 0; i < 3; ++i) {
    auto request = Make("a", 1 + i);
    if (i == 1) request->deadline = now_ + absl::Seconds(1);
    planner_->Add(std::move(request));
  }
  now_ += absl::Seconds(1);
  EXPECT_THAT(Next(), ElementsAre(1, 3));
  ASSERT_EQ(dropped_.size(), 1u);
  EXPECT_EQ(dropped_[0].reason, DropReason::kDeadline);
  EXPECT_EQ(dropped_[0].status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(LaunchPlannerTest, LargeRequestThatExpiresEndsBetweenChunks) {
  auto request = Make("a", 1024);
  request->deadline = now_ + absl::Seconds(1);
  planner_->Add(std::move(request));
  Next();
  now_ += absl::Seconds(1);
  EndLaunch();
  EXPECT_THAT(Next(), ElementsAre());
  ASSERT_EQ(dropped_.size(), 1u);
  EXPECT_THAT(std::string(dropped_[0].status.message()),
              HasSubstr("512 of 1024 rows were computed"));
}

TEST_F(LaunchPlannerTest, SweepTakesOutWhatNobodyWaitsFor) {
  for (int i = 0; i < 4; ++i) {
    auto request = Make("a", 1);
    if (i == 1) request->deadline = now_;
    request->cancelled = std::make_shared<std::atomic<bool>>(i == 2);
    planner_->Add(std::move(request));
  }
  planner_->Sweep(now_, &dropped_);
  ASSERT_EQ(dropped_.size(), 2u);
  EXPECT_EQ(dropped_[0].reason, DropReason::kDeadline);
  EXPECT_EQ(dropped_[1].reason, DropReason::kCancelled);
  EXPECT_EQ(planner_->depth().requests, 2);
  EXPECT_EQ(planner_->depth().bytes, 20);
}

TEST_F(LaunchPlannerTest, QueueDepthCountsRequestsRowsAndBytes) {
  Add("a", 3);
  Add("b", 4);
  EXPECT_EQ(planner_->depth().requests, 2);
  EXPECT_EQ(planner_->depth().rows, 7);
  EXPECT_EQ(planner_->depth().bytes, 70);
  EXPECT_EQ(planner_->TakeAll().size(), 2u);
  EXPECT_EQ(planner_->depth().requests, 0);
  EXPECT_EQ(planner_->depth().rows, 0);
  EXPECT_EQ(planner_->depth().bytes, 0);
}

TEST_F(LaunchPlannerTest, RequestThatNeverFitsIsRefusedForGood) {
  SchedulerOptions options = Batched();
  options.max_queued_bytes = 100;
  Use(options);
  EXPECT_TRUE(Room("a", 1, 100).status.ok());
  const Refusal refusal = Room("a", 1, 101);
  EXPECT_EQ(refusal.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal.reason, DropReason::kTooLarge);
  EXPECT_THAT(std::string(refusal.status.message()),
              AllOf(HasSubstr("101 operand bytes"),
                    HasSubstr("--max_queued_bytes is 100")));
}

TEST_F(LaunchPlannerTest, RowQuotaIsAnIdentitysOwn) {
  clients_are_identities_ = true;
  SchedulerOptions options = Batched();
  options.max_client_queued_rows = 10;
  Use(options);
  Add("a", 8);
  EXPECT_TRUE(Room("a", 2, 0).status.ok());
  EXPECT_TRUE(Room("b", 10, 0).status.ok());
  const Refusal refusal = Room("a", 3, 0);
  EXPECT_EQ(refusal.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refusal.reason, DropReason::kQuota);
  EXPECT_THAT(std::string(refusal.status.message()),
              AllOf(HasSubstr("\"a\" is over its quota"),
                    HasSubstr("8 of its rows wait"), HasSubstr("request has 3"),
                    HasSubstr("(--max_client_queued_rows) is 10")));
  EXPECT_EQ(Room("b", 11, 0).reason, DropReason::kTooLarge);
}

TEST_F(LaunchPlannerTest, ByteQuotaIsAnIdentitysOwn) {
  clients_are_identities_ = true;
  SchedulerOptions options = Batched();
  options.max_client_queued_bytes = 100;
  Use(options);
  Add("a", 8);
  EXPECT_TRUE(Room("a", 1, 20).status.ok());
  EXPECT_TRUE(Room("b", 1, 100).status.ok());
  const Refusal refusal = Room("a", 1, 21);
  EXPECT_EQ(refusal.reason, DropReason::kQuota);
  EXPECT_THAT(std::string(refusal.status.message()),
              HasSubstr("(--max_client_queued_bytes) is 100"));
  EXPECT_EQ(Room("b", 1, 101).reason, DropReason::kTooLarge);
}

TEST_F(LaunchPlannerTest, QuotaIsNotEvadedByOtherClientIds) {
  SchedulerOptions options = Batched();
  options.max_client_queued_rows = 10;
  Use(options);
  Add("a", 8);
  EXPECT_EQ(Room("invented", 3, 0).reason, DropReason::kQuota);
}

TEST_F(LaunchPlannerTest, IdentityLeavesRoomForOthersWhateverItsClientIds) {
  SchedulerOptions options = Batched();
  options.max_queued_requests = 100;
  Use(options);
  for (int i = 0; i < 50; ++i) Add(std::to_string(i), 1);
  EXPECT_EQ(Room("51", 1, 0).reason, DropReason::kQuota);
  clients_are_identities_ = true;
  EXPECT_TRUE(Room("another", 1, 0).status.ok());
}

TEST_F(LaunchPlannerTest, QuotaIsFreeAgainWhenRequestsLaunch) {
  SchedulerOptions options = Batched();
  options.max_client_queued_rows = 10;
  Use(options);
  Add("a", 10);
  Next();
  EXPECT_TRUE(Room("a", 10, 0).status.ok());
}

}  // namespace
}  // namespace qgemm
