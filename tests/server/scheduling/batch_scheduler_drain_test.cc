// SPDX-License-Identifier: Apache-2.0
//
// Drains and holds of a scheduler.

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/scheduling/batch_scheduler.h"
#include "tests/server/scheduling/batch_scheduler_fixture.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;

TEST_F(BatchSchedulerTest, DrainRunsWhatIsQueued) {
  Start(OneLaunch());
  for (int64_t number = 0; number < 3; ++number) Enqueue(number);
  std::thread finisher([this] {
    for (int64_t batch = 1; batch <= 3; ++batch) {
      sink_.WaitForBatches(batch);
      sink_.Finish(0);
    }
  });
  scheduler_->Drain(absl::InfiniteFuture());
  EXPECT_EQ(outcomes_.count(), 3);
  finisher.join();
  EXPECT_EQ(outcomes_.CodeOf(2), absl::StatusCode::kOk);
}

TEST_F(BatchSchedulerTest, DrainedSchedulerRefusesWithUnavailable) {
  Start(OneLaunch());
  scheduler_->Drain(absl::InfiniteFuture());
  Enqueue(1);
  EXPECT_EQ(outcomes_.CodeOf(1), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Dropped("draining", "admission"), 1);
}

TEST_F(BatchSchedulerTest, DrainEndsWhatIsQueuedAtItsDeadline) {
  Start(OneLaunch());
  Occupy(0);
  Enqueue(1);
  scheduler_->Drain(clock_.Now());
  EXPECT_EQ(outcomes_.CodeOf(1), absl::StatusCode::kUnavailable);
  EXPECT_EQ(outcomes_.count(), 1);  // request 0 goes on
}

TEST_F(BatchSchedulerTest, DrainEndsWhenTheClockReachesItsDeadline) {
  Start(OneLaunch());
  Occupy(0);
  Enqueue(1);
  std::thread drainer([this, deadline = clock_.Now() + absl::Hours(1)] {
    scheduler_->Drain(deadline);
  });
  clock_.Advance(absl::Hours(1));
  outcomes_.WaitFor(1);
  drainer.join();
  EXPECT_EQ(outcomes_.CodeOf(1), absl::StatusCode::kUnavailable);
}

TEST_F(BatchSchedulerTest, LaunchMayEndAfterTheDrainGaveUp) {
  Start(OneLaunch());
  Occupy(0);
  scheduler_->Drain(clock_.Now());
  sink_.Finish(0);
  EXPECT_EQ(outcomes_.CodeOf(0), absl::StatusCode::kOk);
}

TEST_F(BatchSchedulerTest, HoldStartsNoLaunchBeforeItsEnd) {
  Start(SchedulerOptions());
  scheduler_->HoldLaunches(clock_.Now() + absl::Seconds(2));
  Enqueue(1);
  Enqueue(2);
  clock_.Advance(absl::Seconds(2) - absl::Nanoseconds(1));
  AwaitLooks(5);
  EXPECT_THAT(sink_.rows(), ElementsAre());
  clock_.Advance(absl::Nanoseconds(1));
  sink_.WaitForBatches(2);
  EXPECT_THAT(sink_.rows(), ElementsAre(1, 2));
}

TEST_F(BatchSchedulerTest, OfSeveralHoldsTheLastToEndCounts) {
  Start(SchedulerOptions());
  scheduler_->HoldLaunches(clock_.Now() + absl::Seconds(2));
  scheduler_->HoldLaunches(clock_.Now() + absl::Seconds(3));
  scheduler_->HoldLaunches(clock_.Now() + absl::Seconds(1));
  Enqueue(1);
  clock_.Advance(absl::Milliseconds(2999));
  AwaitLooks(5);
  EXPECT_THAT(sink_.rows(), ElementsAre());
  clock_.Advance(absl::Milliseconds(1));
  sink_.WaitForBatches(1);
}

TEST_F(BatchSchedulerTest, HoldLeavesLaunchesInFlightAlone) {
  Start(OneLaunch());
  Occupy(1);
  scheduler_->HoldLaunches(absl::InfiniteFuture());
  sink_.Finish(0);
  EXPECT_EQ(outcomes_.CodeOf(1), absl::StatusCode::kOk);
}

TEST_F(BatchSchedulerTest, HeldQueueKeepsItsBounds) {
  SchedulerOptions options;
  options.max_queued_requests = 2;
  Start(options);
  scheduler_->HoldLaunches(absl::InfiniteFuture());
  EnqueueFrom("a", 1);
  EnqueueFrom("b", 2);
  EnqueueFrom("c", 3);
  EXPECT_EQ(outcomes_.CodeOf(3), absl::StatusCode::kResourceExhausted);
}

TEST_F(BatchSchedulerTest, DrainEndsAHold) {
  Start(SchedulerOptions());
  scheduler_->HoldLaunches(absl::InfiniteFuture());
  Enqueue(1);
  std::thread drainer([this] { scheduler_->Drain(absl::InfiniteFuture()); });
  sink_.WaitForBatches(1);
  sink_.Finish(0);
  drainer.join();
  EXPECT_EQ(outcomes_.CodeOf(1), absl::StatusCode::kOk);
}

TEST_F(BatchSchedulerTest, NoHoldBeginsInADrain) {
  Start(OneLaunch());
  Occupy(1);
  Enqueue(2);
  const int64_t looks = clock_.looks();
  std::thread drainer([this] { scheduler_->Drain(absl::InfiniteFuture()); });
  // With its only launch in flight, the dispatcher has no need of the clock.
  while (clock_.looks() == looks) std::this_thread::yield();
  scheduler_->HoldLaunches(absl::InfiniteFuture());
  sink_.Finish(0);
  sink_.WaitForBatches(2);
  sink_.Finish(0);
  drainer.join();
  EXPECT_EQ(outcomes_.CodeOf(2), absl::StatusCode::kOk);
}

}  // namespace
}  // namespace qgemm
