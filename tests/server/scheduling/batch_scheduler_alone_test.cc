// SPDX-License-Identifier: Apache-2.0
//
// Batches beside which nothing waits or runs: what their callers' threads may
// do with them.

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/scheduling/batch_scheduler.h"
#include "tests/server/scheduling/batch_scheduler_fixture.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;

constexpr auto kAsync = ExecutionHint::kAsync;
constexpr auto kInline = ExecutionHint::kMayRunInline;

TEST_F(BatchSchedulerTest, ABatchBesideNoneIsAlone) {
  Start(SchedulerOptions());
  Enqueue(1);
  EXPECT_TRUE(sink_.Finish(0));
  Enqueue(2);
  Enqueue(3);
  EXPECT_THAT(sink_.hints(), ElementsAre(kInline, kInline, kAsync));
}

// The end of another launch starts it, on a thread that has others to end.
TEST_F(BatchSchedulerTest, ABatchThatWaitedIsNotAlone) {
  Start(OneLaunch());
  Enqueue(1);
  Enqueue(2);
  EXPECT_TRUE(sink_.Finish(0));
  EXPECT_THAT(sink_.hints(), ElementsAre(kInline, kAsync));
}

TEST_F(BatchSchedulerTest, ALargeRequestIsNotAlone) {
  Start(SchedulerOptions());
  scheduler_->Enqueue(LargeRequest(1000));
  EXPECT_THAT(sink_.hints(), ElementsAre(kAsync));
}

TEST_F(BatchSchedulerTest, ACallerWithMoreToDoComputesAtMost) {
  Start(SchedulerOptions());
  auto request = Request(1);
  request->may_wait = false;
  scheduler_->Enqueue(std::move(request));
  EXPECT_THAT(sink_.hints(), ElementsAre(ExecutionHint::kMayCompute));
}

class TogetherTest : public BatchSchedulerTest {
 protected:
  void StartMerging() {
    SchedulerOptions options;
    options.batching.max_requests = 8;
    Start(options);
  }

  void EnqueueTogether(const std::vector<int64_t>& numbers) {
    std::vector<std::unique_ptr<AdmittedRequest>> requests;
    for (const int64_t number : numbers) requests.push_back(Request(number));
    scheduler_->EnqueueAll(absl::MakeSpan(requests));
    for (const auto& request : requests) EXPECT_EQ(request, nullptr);
  }
};

TEST_F(TogetherTest, RequestsThatComeTogetherShareALaunch) {
  StartMerging();
  EnqueueTogether({1, 2, 3});
  EXPECT_THAT(sink_.sizes(), ElementsAre(3));
  EXPECT_THAT(sink_.hints(), ElementsAre(ExecutionHint::kMayCompute));
}

TEST_F(TogetherTest, OneThatIsAloneMayWait) {
  StartMerging();
  EnqueueTogether({1});
  EXPECT_THAT(sink_.hints(), ElementsAre(kInline));
}

TEST_F(TogetherTest, BesideAnotherLaunchTheyAreNotAlone) {
  StartMerging();
  Enqueue(1);
  EnqueueTogether({2, 3});
  EXPECT_THAT(sink_.hints(), ElementsAre(kInline, kAsync));
}

TEST_F(TogetherTest, EachThatHasNoRoomIsRefused) {
  SchedulerOptions options = OneLaunch();
  options.max_queued_requests = 2;
  Start(options);
  Occupy(1);
  EnqueueTogether({2, 3, 4});
  EXPECT_EQ(outcomes_.CodeOf(4), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(sink_.Finish(0));
  EXPECT_EQ(outcomes_.CodeOf(1), absl::StatusCode::kOk);
}

TEST_F(TogetherTest, NoRequestsAreNothing) {
  StartMerging();
  EnqueueTogether({});
  EXPECT_TRUE(sink_.sizes().empty());
}

// Waits with the batch that is alone until another has come and ended.
class WaitingSink final : public BatchSink {
 public:
  void Submit(ClosedBatch batch, Finished finished) override {
    if (batch.hint == ExecutionHint::kMayRunInline) {
      MutexLock lock(&mutex_);
      waits_ = true;
      changed_.SignalAll();
      while (!other_came_) changed_.Wait(&mutex_);
    }
    ScheduledRequest& scheduled = batch.requests.front();
    scheduled.state.in_launch = {scheduled.state.in_launch.count, 0};
    Complete(std::move(scheduled), absl::OkStatus());
    finished(std::nullopt);
    MutexLock lock(&mutex_);
    other_came_ = true;
    changed_.SignalAll();
  }

  void AwaitWaiting() {
    MutexLock lock(&mutex_);
    while (!waits_) changed_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool waits_ ABSL_GUARDED_BY(mutex_) = false;
  bool other_came_ ABSL_GUARDED_BY(mutex_) = false;
};

TEST_F(BatchSchedulerTest, WhoWaitsForABatchHoldsUpNoOther) {
  WaitingSink sink;
  BatchScheduler scheduler(SchedulerOptions(), &sink, &clock_, &metrics_);
  std::thread first([&] { scheduler.Enqueue(Request(1)); });
  sink.AwaitWaiting();
  scheduler.Enqueue(Request(2));
  first.join();
  EXPECT_EQ(outcomes_.CodeOf(1), absl::StatusCode::kOk);
  EXPECT_EQ(outcomes_.CodeOf(2), absl::StatusCode::kOk);
}

}  // namespace
}  // namespace qgemm
