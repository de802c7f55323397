// SPDX-License-Identifier: Apache-2.0
//
// Order, admission and drops of requests; drains and holds are in
// batch_scheduler_drain_test.cc.

#include "server/scheduling/batch_scheduler.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/scheduling/batch_scheduler_fixture.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

TEST_F(BatchSchedulerTest, RunsRequestsFirstInFirstOut) {
  Start(OneLaunch());
  for (int64_t number = 0; number < 5; ++number) Enqueue(number);
  StopAfterFinishingAll();
  EXPECT_THAT(sink_.rows(), ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(BatchSchedulerTest, EveryRequestHasALaunchOfItsOwnByDefault) {
  Start(SchedulerOptions());
  for (int64_t number = 0; number < 5; ++number) Enqueue(number);
  StopAfterFinishingAll();
  EXPECT_THAT(sink_.sizes(), ElementsAre(1, 1, 1, 1, 1));
}

TEST_F(BatchSchedulerTest, MergesWhatMayRunTogetherIfThePolicySaysSo) {
  SchedulerOptions options = OneLaunch();
  options.batching.max_requests = 8;
  options.batching.max_rows = 100;
  Start(options);
  Occupy(1);
  for (int64_t number = 2; number < 5; ++number) Enqueue(number);
  auto other = Request(5);
  other->signature.mode = ComputeMode::kA32;
  scheduler_->Enqueue(std::move(other));
  Enqueue(6);
  StopAfterFinishingAll();
  EXPECT_THAT(sink_.sizes(), ElementsAre(1, 4, 1));
  EXPECT_THAT(sink_.rows(), ElementsAre(1, 2, 3, 4, 6, 5));
}

TEST_F(BatchSchedulerTest, FullQueueRefusesAndNamesTheLimit) {
  SchedulerOptions options = OneLaunch();
  options.max_queued_requests = 2;
  Start(options);
  Occupy(0);
  EnqueueFrom("a", 1);
  EnqueueFrom("b", 2);
  EnqueueFrom("c", 3);
  ASSERT_EQ(outcomes_.CodeOf(3), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(outcomes_.Of(3).front().status.message(),
              HasSubstr("2 requests wait, the limit is 2"));
  EXPECT_EQ(Dropped("queue_full", "admission"), 1);
}

TEST_F(BatchSchedulerTest, OneIdentityFillsHalfOfTheQueue) {
  SchedulerOptions options = OneLaunch();
  options.max_queued_requests = 4;
  Start(options);
  Occupy(0);
  for (int64_t number = 1; number <= 3; ++number) EnqueueFrom("a", number);
  ASSERT_EQ(outcomes_.CodeOf(3), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(outcomes_.Of(3).front().status.message(),
              HasSubstr("\"a\" is over its share"));
  EXPECT_EQ(Dropped("quota", "admission"), 1);
  EnqueueFrom("b", 4);
  EXPECT_EQ(outcomes_.Of(4).size(), 0u);
}

// Two identities on two sets of weights; the number of a request is its rows.
TEST_F(BatchSchedulerTest, BacklogOnOtherWeightsDelaysNobodysRequest) {
  SchedulerOptions options;
  options.batching.max_requests = 64;
  Start(options);
  const auto backlogged = std::make_shared<NoWeights>();
  for (int i = 0; i < 900; ++i) {
    auto request = LargeRequest(64);
    request->weights = backlogged;
    request->identity = "uid 1";
    request->client = std::to_string(i);
    request->priority = Priority::kHigh;
    scheduler_->Enqueue(std::move(request));
  }
  auto small = LargeRequest(3);
  small->identity = "uid 2";
  scheduler_->Enqueue(std::move(small));
  sink_.Finish(0);
  EXPECT_THAT(sink_.rows(), ElementsAre(64, 64, 3));
}

TEST_F(BatchSchedulerTest, FullQueueAdmitsAgainWhenOneHasLeft) {
  SchedulerOptions options = OneLaunch();
  options.max_queued_requests = 1;
  Start(options);
  Occupy(0);
  Enqueue(1);
  sink_.Finish(0);
  sink_.WaitForBatches(2);
  Enqueue(2);
  StopAfterFinishingAll();
  EXPECT_EQ(outcomes_.CodeOf(2), absl::StatusCode::kOk);
}

TEST_F(BatchSchedulerTest, QueuedBytesOfAAndCAreBounded) {
  SchedulerOptions options = OneLaunch();
  options.max_queued_bytes = 100;
  Start(options);
  Occupy(0);
  for (int64_t number = 1; number <= 3; ++number) {
    auto request = Request(number);
    request->identity = std::to_string(number);
    request->a = Bytes(20);
    request->c = Bytes(30);
    scheduler_->Enqueue(std::move(request));
  }
  EXPECT_THAT(MetricValue(metrics_, "qgemm_queue_bytes"), Optional(100.0));
  ASSERT_EQ(outcomes_.CodeOf(3), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(outcomes_.Of(3).front().status.message(),
              AllOf(HasSubstr("100 operand bytes wait"),
                    HasSubstr("request has 50"), HasSubstr("limit is 100")));
}

TEST_F(BatchSchedulerTest, QueueDepthReturnsToZero) {
  Start(OneLaunch());
  Occupy(0);
  Enqueue(1);
  EXPECT_THAT(MetricValue(metrics_, "qgemm_queue_requests"), Optional(1.0));
  StopAfterFinishingAll();
  EXPECT_THAT(MetricValue(metrics_, "qgemm_queue_requests"), Optional(0.0));
}

TEST_F(BatchSchedulerTest, RequestThatExpiresInTheQueueNeverReachesTheSink) {
  Start(OneLaunch());
  Occupy(0);
  auto request = Request(1);
  request->deadline = clock_.Now() + absl::Seconds(1);
  scheduler_->Enqueue(std::move(request));
  Enqueue(2);
  clock_.Advance(absl::Seconds(1));
  StopAfterFinishingAll();
  EXPECT_EQ(outcomes_.CodeOf(1), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(sink_.rows(), ElementsAre(0, 2));
  EXPECT_EQ(Dropped("deadline", "queue"), 1);
}

TEST_F(BatchSchedulerTest, RequestBeforeItsDeadlineRuns) {
  Start(OneLaunch());
  Occupy(0);
  auto request = Request(1);
  request->deadline = clock_.Now() + absl::Seconds(1);
  scheduler_->Enqueue(std::move(request));
  clock_.Advance(absl::Milliseconds(999));
  StopAfterFinishingAll();
  EXPECT_EQ(outcomes_.CodeOf(1), absl::StatusCode::kOk);
}

TEST_F(BatchSchedulerTest, RequestCancelledInTheQueueNeverReachesTheSink) {
  Start(OneLaunch());
  Occupy(0);
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  auto request = Request(1);
  request->cancelled = cancelled;
  scheduler_->Enqueue(std::move(request));
  *cancelled = true;
  StopAfterFinishingAll();
  EXPECT_EQ(outcomes_.CodeOf(1), absl::StatusCode::kCancelled);
  EXPECT_THAT(sink_.rows(), ElementsAre(0));
  EXPECT_EQ(Dropped("cancelled", "queue"), 1);
}

TEST_F(BatchSchedulerTest, ExpiredRequestDoesNotSplitABatch) {
  SchedulerOptions options = OneLaunch();
  options.batching.max_requests = 8;
  Start(options);
  Occupy(0);
  Enqueue(1);
  auto request = Request(2);
  request->deadline = clock_.Now();
  scheduler_->Enqueue(std::move(request));
  Enqueue(3);
  StopAfterFinishingAll();
  EXPECT_THAT(sink_.sizes(), ElementsAre(1, 2));
  EXPECT_EQ(outcomes_.CodeOf(2), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(BatchSchedulerTest, FullQueueIsSweptOfRequestsThatNobodyWaitsFor) {
  SchedulerOptions options = OneLaunch();
  options.max_queued_requests = 2;
  Start(options);
  Occupy(0);
  EnqueueFrom("a", 1);
  const auto cancelled = std::make_shared<std::atomic<bool>>(true);
  auto request = Request(2);
  request->identity = "b";
  request->cancelled = cancelled;
  scheduler_->Enqueue(std::move(request));
  EnqueueFrom("c", 3);
  EXPECT_EQ(outcomes_.CodeOf(2), absl::StatusCode::kCancelled);
  EXPECT_EQ(outcomes_.Of(3).size(), 0u);
  EXPECT_EQ(Dropped("cancelled", "queue"), 1);
}

TEST_F(BatchSchedulerTest, RoomIsToldWithoutARequest) {
  SchedulerOptions options = OneLaunch();
  options.max_queued_requests = 1;
  Start(options);
  Occupy(0);
  EXPECT_EQ(scheduler_->CheckRoom({}), absl::OkStatus());
  EXPECT_EQ(Dropped("queue_full", "admission"), 0);
  Enqueue(1);
  EXPECT_EQ(scheduler_->CheckRoom({}).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Dropped("queue_full", "admission"), 1);
}

TEST_F(BatchSchedulerTest, RequestThatNeverFitsIsRefusedAsInvalid) {
  SchedulerOptions options = OneLaunch();
  options.max_queued_bytes = 100;
  Start(options);
  auto request = Request(1);
  request->a = Bytes(101);
  scheduler_->Enqueue(std::move(request));
  EXPECT_EQ(outcomes_.CodeOf(1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Dropped("too_large", "admission"), 1);
}

TEST_F(BatchSchedulerTest, LargeRequestEndsAfterItsLastChunk) {
  SchedulerOptions options = OneLaunch();
  options.batching.chunks.max_rows = 64;
  Start(options);
  scheduler_->Enqueue(LargeRequest(150));
  for (int64_t chunk = 1; chunk <= 3; ++chunk) {
    sink_.WaitForBatches(chunk);
    EXPECT_EQ(outcomes_.count(), 0);
    sink_.Finish(0);
  }
  EXPECT_EQ(outcomes_.CodeOf(150), absl::StatusCode::kOk);
  ASSERT_EQ(sink_.ranges().size(), 3u);
  EXPECT_EQ(sink_.ranges()[2].first, 128);
  EXPECT_EQ(sink_.ranges()[2].count, 22);
}

TEST_F(BatchSchedulerTest, LargeRequestOfACallerThatLeftEndsBetweenChunks) {
  Start(OneLaunch());
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  auto request = LargeRequest(2048);
  request->cancelled = cancelled;
  scheduler_->Enqueue(std::move(request));
  *cancelled = true;
  sink_.Finish(0);
  EXPECT_EQ(outcomes_.CodeOf(2048), absl::StatusCode::kCancelled);
  EXPECT_EQ(Dropped("cancelled", "chunks"), 1);
}

TEST_F(BatchSchedulerTest, DrainThatGaveUpEndsALargeRequestAtItsChunk) {
  Start(OneLaunch());
  scheduler_->Enqueue(LargeRequest(2048));
  scheduler_->Drain(clock_.Now());
  EXPECT_EQ(outcomes_.count(), 0);
  sink_.Finish(0);
  EXPECT_EQ(outcomes_.CodeOf(2048), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Dropped("draining", "chunks"), 1);
}

TEST_F(BatchSchedulerTest, LaunchStartsWithinEnqueue) {
  Start(OneLaunch());
  Enqueue(1);
  EXPECT_THAT(sink_.rows(), ElementsAre(1));
}

TEST_F(BatchSchedulerTest, NextLaunchStartsWithinTheEndOfTheLast) {
  Start(OneLaunch());
  Enqueue(1);
  Enqueue(2);
  sink_.Finish(0);
  EXPECT_THAT(sink_.rows(), ElementsAre(1, 2));
}

TEST_F(BatchSchedulerTest, CountsAcceptedRequestsAndRows) {
  Start(OneLaunch());
  Enqueue(3);
  Enqueue(4);
  EXPECT_THAT(MetricValue(metrics_, "qgemm_requests_accepted_total"),
              Optional(2.0));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_rows_accepted_total"),
              Optional(7.0));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_queue_rows"), Optional(4.0));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_launches_in_flight"), Optional(1.0));
}

TEST_F(BatchSchedulerTest, LaunchesInFlightAreBoundedAndReached) {
  SchedulerOptions options;
  options.max_launches_in_flight = 3;
  Start(options);
  for (int64_t number = 0; number < 20; ++number) Enqueue(number);
  sink_.WaitForBatches(3);
  StopAfterFinishingAll();
  EXPECT_EQ(sink_.most_in_flight(), 3);
}

TEST_F(BatchSchedulerTest, DoneMayEnqueueAgain) {
  Start(OneLaunch());
  auto first = Request(1);
  first->done = [this](absl::Status, const GemmTimings&,
                       std::unique_ptr<AdmittedRequest>) { Enqueue(2); };
  scheduler_->Enqueue(std::move(first));
  sink_.WaitForBatches(1);
  sink_.Finish(0);
  sink_.WaitForBatches(2);
  sink_.Finish(0);
  EXPECT_EQ(outcomes_.CodeOf(2), absl::StatusCode::kOk);
}

TEST_F(BatchSchedulerTest, DestructionRunsWhatIsQueued) {
  Start(OneLaunch());
  for (int64_t number = 0; number < 3; ++number) Enqueue(number);
  StopAfterFinishingAll();
  EXPECT_EQ(outcomes_.CodeOf(2), absl::StatusCode::kOk);
}

}  // namespace
}  // namespace qgemm
