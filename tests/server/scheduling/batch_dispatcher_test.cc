// SPDX-License-Identifier: Apache-2.0
//
// Launches on a scripted backend: segments, timings, completions, metrics.

#include "server/scheduling/batch_dispatcher.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/worker_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/metrics/metrics_text.h"
#include "tests/server/scheduling/outcomes.h"
#include "tests/server/scheduling/scripted_backend.h"
#include "tests/support/fake_clock.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

class EmptyWeights final : public ResidentWeights {
 public:
  EmptyWeights() : ResidentWeights(1, 1) {}
  int64_t resident_bytes() const override { return 0; }
};

class BatchDispatcherTest : public testing::Test {
 protected:
  // Waits for `waited` already; its operands are bytes [4 * number, + 4) of
  // a_ and c_.
  ScheduledRequest Request(int64_t number, int64_t rows,
                           absl::Duration waited) {
    ScheduledRequest scheduled;
    scheduled.request = std::make_unique<AdmittedRequest>();
    AdmittedRequest* const request = scheduled.request.get();
    request->weights = weights_;
    request->signature.mode = ComputeMode::kA32;
    request->m = rows;
    scheduled.state.in_launch = {0, rows};
    request->a = StagingLease(a_ + 4 * number, 4, [this] { ++returned_; });
    request->c = StagingLease(c_ + 4 * number, 4, [this] { ++returned_; });
    request->arrival = clock_.Now() - waited;
    request->done = outcomes_.Recorder(number);
    return scheduled;
  }

  // Two requests of 3 and 5 rows.
  void SubmitTwo() {
    ClosedBatch batch;
    batch.requests.push_back(Request(0, 3, absl::Seconds(8)));
    batch.requests.push_back(Request(1, 5, absl::Seconds(2)));
    SubmitBatch(std::move(batch));
  }

  void SubmitBatch(ClosedBatch batch) {
    dispatcher_.Submit(std::move(batch), [this](auto unfinished) {
      unfinished_ = std::move(unfinished);
      ++finished_;
      ended_before_finished_ = outcomes_.count();
    });
  }

  static BatchTimings Timings() {
    BatchTimings timings;
    timings.wait = absl::Seconds(1);
    timings.host_to_device = absl::Seconds(16);
    timings.kernel = absl::Seconds(32);
    timings.device_to_host = absl::Seconds(64);
    timings.ops = {absl::Seconds(3), absl::Seconds(5)};
    return timings;
  }

  uint8_t a_[16] = {};
  uint8_t c_[16] = {};
  int returned_ = 0;  // leases
  int finished_ = 0;
  int64_t ended_before_finished_ = 0;
  std::optional<ScheduledRequest> unfinished_;
  FakeClock clock_;
  ServerMetrics metrics_;
  Outcomes outcomes_;
  std::shared_ptr<const ResidentWeights> weights_ =
      std::make_shared<EmptyWeights>();
  ScriptedBackend backend_;
  BatchDispatcher dispatcher_{&backend_, &clock_, &metrics_};
};

TEST(CompletesInlineTest, FewShortAnswersDo) {
  EXPECT_TRUE(CompletesInline(0, 0));
  EXPECT_TRUE(CompletesInline(1, 8192));
  EXPECT_TRUE(CompletesInline(kMaxInlineCompletions, kMaxInlineAnswerBytes));
}

TEST(CompletesInlineTest, NeitherManyNorLongAnswersDo) {
  EXPECT_FALSE(CompletesInline(kMaxInlineCompletions + 1, 8192));
  EXPECT_FALSE(CompletesInline(1, kMaxInlineAnswerBytes + 1));
}

TEST_F(BatchDispatcherTest, SegmentsPointIntoTheLeasesInOrder) {
  SubmitTwo();
  const GemmBatch& batch = backend_.batch();
  ASSERT_EQ(batch.segments.size(), 2u);
  EXPECT_EQ(batch.segments[0].rows, 3);
  EXPECT_EQ(batch.segments[0].a, a_);
  EXPECT_EQ(batch.segments[0].c, c_);
  EXPECT_EQ(batch.segments[0].request_rows(), 3);
  EXPECT_EQ(batch.segments[1].rows, 5);
  EXPECT_EQ(batch.segments[1].a, a_ + 4);
  EXPECT_EQ(batch.segments[1].c, c_ + 4);
  backend_.Complete(absl::OkStatus(), Timings());
}

TEST_F(BatchDispatcherTest, LaunchHasTheRequestsWeightsAndSignature) {
  SubmitTwo();
  EXPECT_EQ(backend_.batch().weights, weights_);
  EXPECT_EQ(backend_.batch().signature.mode, ComputeMode::kA32);
  backend_.Complete(absl::OkStatus(), Timings());
}

TEST_F(BatchDispatcherTest, LeasesStayUntilTheLaunchEnds) {
  SubmitTwo();
  EXPECT_EQ(returned_, 0);
  EXPECT_EQ(outcomes_.count(), 0);
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_EQ(returned_, 4);
}

TEST_F(BatchDispatcherTest, WeightsAreReleasedWhenTheLaunchEnds) {
  SubmitTwo();
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_EQ(weights_.use_count(), 1);
}

TEST_F(BatchDispatcherTest, QueueTimeIsEachRequestsOwnWithTheBackendsWait) {
  SubmitTwo();
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_EQ(outcomes_.Of(0).at(0).timings.queue, absl::Seconds(9));
  EXPECT_EQ(outcomes_.Of(1).at(0).timings.queue, absl::Seconds(3));
}

TEST_F(BatchDispatcherTest, TimeAfterTheStartIsNotQueueTime) {
  SubmitTwo();
  clock_.Advance(absl::Seconds(100));
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_EQ(outcomes_.Of(1).at(0).timings.queue, absl::Seconds(3));
}

TEST_F(BatchDispatcherTest, OtherTimesAndSizesAreTheLaunches) {
  SubmitTwo();
  backend_.Complete(absl::OkStatus(), Timings());
  const GemmTimings timings = outcomes_.Of(1).at(0).timings;
  EXPECT_EQ(timings.host_to_device, absl::Seconds(16));
  EXPECT_EQ(timings.kernel, absl::Seconds(32));
  EXPECT_EQ(timings.device_to_host, absl::Seconds(64));
  EXPECT_THAT(timings.ops, ElementsAre(absl::Seconds(3), absl::Seconds(5)));
  EXPECT_EQ(timings.launch_rows, 8);
  EXPECT_EQ(timings.launch_requests, 2);
}

TEST_F(BatchDispatcherTest, FinishesOnceAfterEveryRequestHasEnded) {
  SubmitTwo();
  EXPECT_EQ(finished_, 0);
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_EQ(finished_, 1);
  EXPECT_EQ(ended_before_finished_, 2);
}

TEST_F(BatchDispatcherTest, FailedLaunchEndsEveryRequestWithItsStatus) {
  const absl::Status failure = absl::InternalError("the device fell off");
  SubmitTwo();
  backend_.Complete(failure, BatchTimings());
  EXPECT_EQ(outcomes_.Of(0).at(0).status, failure);
  EXPECT_EQ(outcomes_.Of(1).at(0).status, failure);
  EXPECT_EQ(finished_, 1);
}

TEST_F(BatchDispatcherTest, RefusedLaunchEndsEveryRequestWithItsStatus) {
  const absl::Status refusal = absl::UnimplementedError("no such kernel");
  backend_.AnswerEnqueue(refusal);
  SubmitTwo();
  EXPECT_EQ(outcomes_.Of(0).at(0).status, refusal);
  EXPECT_EQ(outcomes_.Of(1).at(0).status, refusal);
  EXPECT_EQ(finished_, 1);
  EXPECT_EQ(ended_before_finished_, 2);
}

// Requests that name a completion executor.
class CompletionExecutorTest : public BatchDispatcherTest {
 protected:
  static constexpr int kRequests = 40;

  // The even ones name one pool, the odd ones another.
  ClosedBatch ManyRequests() {
    ClosedBatch batch;
    for (int i = 0; i < kRequests; ++i) {
      batch.requests.push_back(Request(0, 1, absl::Seconds(1)));
      AdmittedRequest& request = *batch.requests.back().request;
      request.a = StagingLease();  // whose end is counted on one thread
      request.c = StagingLease();
      request.completion_executor = &executors_[i % 2];
      request.done = [this, i, record = outcomes_.Recorder(i)](
                         absl::Status status, const GemmTimings& timings,
                         std::unique_ptr<AdmittedRequest> ended) mutable {
        threads_[i] = std::this_thread::get_id();
        record(std::move(status), timings, std::move(ended));
      };
    }
    return batch;
  }

  void CompleteMany(const absl::Status& status) {
    SubmitBatch(ManyRequests());
    backend_.Complete(status, Timings());
    EXPECT_EQ(finished_, 1);
    EXPECT_FALSE(unfinished_.has_value());
    dispatcher_.WaitForCompletions();
    EXPECT_EQ(outcomes_.count(), kRequests);
  }

  std::array<std::thread::id, kRequests> threads_;
  std::array<WorkerPool, 2> executors_{WorkerPool(1), WorkerPool(1)};
};

TEST_F(CompletionExecutorTest, EveryRequestEndsOnceWithItsTimings) {
  CompleteMany(absl::OkStatus());
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_EQ(outcomes_.Of(i).size(), 1u) << i;
    EXPECT_TRUE(outcomes_.Of(i)[0].status.ok());
    EXPECT_EQ(outcomes_.Of(i)[0].timings.launch_rows, kRequests);
  }
}

TEST_F(CompletionExecutorTest, EveryRequestCompletesOnItsExecutor) {
  CompleteMany(absl::OkStatus());
  EXPECT_NE(threads_[0], threads_[1]);
  for (int i = 0; i < kRequests; ++i) EXPECT_EQ(threads_[i], threads_[i % 2]);
}

TEST_F(CompletionExecutorTest, AFailureReachesEveryRequest) {
  const absl::Status failure = absl::InternalError("the device fell off");
  CompleteMany(failure);
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_EQ(outcomes_.Of(i).size(), 1u) << i;
    EXPECT_EQ(outcomes_.Of(i)[0].status, failure);
  }
}

TEST_F(CompletionExecutorTest, FewShortAnswersAreNotPosted) {
  ClosedBatch batch = ManyRequests();
  batch.requests.resize(kMaxInlineCompletions);
  SubmitBatch(std::move(batch));
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_EQ(ended_before_finished_, kMaxInlineCompletions);
  EXPECT_EQ(threads_[0], std::this_thread::get_id());
}

// The device begins with it meanwhile.
TEST_F(BatchDispatcherTest, ManyWithoutAnExecutorFollowTheNextLaunch) {
  ClosedBatch batch;
  for (int64_t i = 0; i <= kMaxInlineCompletions; ++i) {
    batch.requests.push_back(Request(i, 1, absl::Seconds(1)));
  }
  SubmitBatch(std::move(batch));
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_EQ(finished_, 1);
  EXPECT_EQ(ended_before_finished_, 0);
  EXPECT_EQ(outcomes_.count(), kMaxInlineCompletions + 1);
}

TEST_F(BatchDispatcherTest, BackendGetsTheBatchesHint) {
  for (const ExecutionHint hint :
       {ExecutionHint::kAsync, ExecutionHint::kMayRunInline}) {
    ClosedBatch batch;
    batch.requests.push_back(Request(0, 1, absl::Seconds(1)));
    batch.hint = hint;
    SubmitBatch(std::move(batch));
    EXPECT_EQ(backend_.batch().hint, hint);
    backend_.Complete(absl::OkStatus(), Timings());
  }
}

// Requests of 4 rows, each of one element: 4 bytes of a, 2 of c.
class ChunkTest : public BatchDispatcherTest {
 protected:
  void SubmitChunk(const RowRange& rows) {
    auto request = Request(0, 4, absl::Seconds(8));
    request.request->signature.a_type = FloatType::kFloat32;
    request.request->signature.c_type = FloatType::kFloat16;
    request.state.in_launch = rows;
    ClosedBatch batch;
    batch.requests.push_back(std::move(request));
    SubmitBatch(std::move(batch));
  }
  void SubmitNext() {
    ClosedBatch batch;
    unfinished_->state.in_launch.count = unfinished_->rows_left();
    batch.requests.push_back(*std::exchange(unfinished_, std::nullopt));
    SubmitBatch(std::move(batch));
  }
};

TEST_F(ChunkTest, SegmentPointsIntoTheMiddleOfTheLeases) {
  SubmitChunk({2, 1});
  const GemmBatch& batch = backend_.batch();
  ASSERT_EQ(batch.segments.size(), 1u);
  EXPECT_EQ(batch.segments[0].rows, 1);
  EXPECT_EQ(batch.segments[0].a, a_ + 2 * 4);
  EXPECT_EQ(batch.segments[0].c, c_ + 2 * 2);
  backend_.Complete(absl::OkStatus(), Timings());
}

TEST_F(ChunkTest, RequestWithRowsLeftComesBackUnended) {
  SubmitChunk({0, 2});
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_EQ(finished_, 1);
  EXPECT_EQ(outcomes_.count(), 0);
  ASSERT_TRUE(unfinished_.has_value());
  EXPECT_EQ(unfinished_->state.in_launch.first, 2);
  EXPECT_EQ(unfinished_->rows_left(), 2);
  EXPECT_EQ(unfinished_->state.last_launch_end, clock_.Now());
}

TEST_F(ChunkTest, TimesAreSumsOverTheLaunches) {
  SubmitChunk({0, 1});
  clock_.Advance(absl::Seconds(100));
  backend_.Complete(absl::OkStatus(), Timings());
  clock_.Advance(absl::Seconds(4));
  SubmitNext();
  backend_.Complete(absl::OkStatus(), Timings());
  const GemmTimings timings = outcomes_.Of(0).at(0).timings;
  EXPECT_EQ(timings.queue, absl::Seconds(8 + 1 + 4 + 1));
  EXPECT_EQ(timings.kernel, absl::Seconds(2 * 32));
  EXPECT_THAT(timings.ops, ElementsAre(absl::Seconds(6), absl::Seconds(10)));
  EXPECT_EQ(timings.launch_rows, 3);
  EXPECT_EQ(timings.launch_requests, 1);
}

TEST_F(ChunkTest, FailedChunkEndsTheRequest) {
  SubmitChunk({0, 2});
  backend_.Complete(absl::InternalError("the device fell off"), Timings());
  EXPECT_EQ(outcomes_.Of(0).at(0).status.code(), absl::StatusCode::kInternal);
  EXPECT_FALSE(unfinished_.has_value());
  EXPECT_EQ(finished_, 1);
}

TEST_F(BatchDispatcherTest, CountsStagesOfEachRequest) {
  SubmitTwo();
  clock_.Advance(absl::Seconds(100));
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_THAT(MetricValue(metrics_, "qgemm_requests_computed_total"),
              Optional(2.0));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_rows_computed_total"),
              Optional(8.0));
  EXPECT_THAT(
      MetricValue(metrics_, "qgemm_request_stage_seconds_sum{stage=\"queue\"}"),
      Optional(12.0));
  EXPECT_THAT(
      MetricValue(metrics_, "qgemm_request_stage_seconds_sum{stage=\"d2h\"}"),
      Optional(128.0));
  EXPECT_THAT(
      MetricValue(metrics_, "qgemm_request_stage_seconds_sum{stage=\"total\"}"),
      Optional(210.0));
}

TEST_F(BatchDispatcherTest, CountsRequestsThatWereComputedForNobody) {
  auto expired = Request(0, 1, absl::Seconds(1));
  expired.request->deadline = clock_.Now() + absl::Seconds(5);
  auto cancelled = Request(1, 1, absl::Seconds(1));
  cancelled.request->cancelled = std::make_shared<std::atomic<bool>>(true);
  ClosedBatch batch;
  batch.requests.push_back(std::move(expired));
  batch.requests.push_back(std::move(cancelled));
  SubmitBatch(std::move(batch));
  clock_.Advance(absl::Seconds(5));
  backend_.Complete(absl::OkStatus(), Timings());
  for (const char* reason : {"deadline", "cancelled"}) {
    EXPECT_THAT(
        MetricValue(metrics_,
                    std::string("qgemm_requests_wasted_total{reason=\"") +
                        reason + "\"}"),
        Optional(1.0));
  }
}

TEST_F(BatchDispatcherTest, CountsLaunchesByTheirOldestRequest) {
  SubmitTwo();
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_THAT(MetricValue(metrics_, "qgemm_launch_rows_sum"), Optional(8.0));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_launch_requests_sum"),
              Optional(2.0));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_launch_queue_seconds_sum"),
              Optional(9.0));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_launch_kernel_seconds_sum"),
              Optional(32.0));
}

TEST_F(BatchDispatcherTest, CountsFailedLaunchesApart) {
  SubmitTwo();
  backend_.Complete(absl::InternalError("the device fell off"), Timings());
  EXPECT_THAT(
      MetricValue(metrics_, "qgemm_launch_errors_total{code=\"INTERNAL\"}"),
      Optional(1.0));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_launch_rows_count"), Optional(0.0));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_requests_failed_total"),
              Optional(2.0));
}

const absl::Status kHung = absl::UnavailableError("a launch hangs");

TEST_F(BatchDispatcherTest, KnowsTheOldestLaunchInFlight) {
  EXPECT_FALSE(dispatcher_.OldestLaunch().has_value());
  const absl::Time start = clock_.Now();
  SubmitTwo();
  clock_.Advance(absl::Seconds(5));
  ASSERT_TRUE(dispatcher_.OldestLaunch().has_value());
  EXPECT_EQ(dispatcher_.OldestLaunch()->start, start);
  const uint64_t number = dispatcher_.OldestLaunch()->number;
  EXPECT_FALSE(dispatcher_.WaitForLaunches(clock_.Now()));
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_FALSE(dispatcher_.OldestLaunch().has_value());
  EXPECT_TRUE(dispatcher_.WaitForLaunches(clock_.Now()));
  SubmitTwo();
  EXPECT_NE(dispatcher_.OldestLaunch()->number, number);
  backend_.Complete(absl::OkStatus(), Timings());
}

TEST_F(BatchDispatcherTest, ARefusedLaunchIsNotInFlight) {
  backend_.AnswerEnqueue(absl::UnimplementedError("no such kernel"));
  SubmitTwo();
  EXPECT_FALSE(dispatcher_.OldestLaunch().has_value());
}

TEST_F(BatchDispatcherTest, FailEndsRequestsInFlightOnce) {
  SubmitTwo();
  dispatcher_.Fail(kHung);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(outcomes_.Of(i).size(), 1u);
    EXPECT_EQ(outcomes_.Of(i)[0].status, kHung);
  }
  EXPECT_EQ(finished_, 1);
  EXPECT_EQ(ended_before_finished_, 2);
  EXPECT_FALSE(dispatcher_.OldestLaunch().has_value());
  backend_.Complete(absl::OkStatus(), Timings());
  dispatcher_.Fail(kHung);
  EXPECT_EQ(outcomes_.count(), 2);
  EXPECT_EQ(finished_, 1);
}

TEST_F(BatchDispatcherTest, MemoryOfAFailedLaunchStaysUntilTheBackendEndsIt) {
  SubmitTwo();
  dispatcher_.Fail(kHung);
  EXPECT_EQ(returned_, 0);
  EXPECT_GT(weights_.use_count(), 1);
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_EQ(returned_, 4);
  EXPECT_EQ(weights_.use_count(), 1);
}

TEST_F(BatchDispatcherTest, ALaunchAfterFailDoesNotReachTheBackend) {
  dispatcher_.Fail(kHung);
  SubmitTwo();
  EXPECT_FALSE(backend_.has_batch());
  EXPECT_EQ(outcomes_.Of(0).at(0).status, kHung);
  EXPECT_EQ(outcomes_.Of(1).at(0).status, kHung);
  EXPECT_EQ(finished_, 1);
  EXPECT_EQ(returned_, 4);
}

TEST_F(BatchDispatcherTest, TheBackendMayEndAFailedLaunchAfterTheDispatcher) {
  auto dispatcher =
      std::make_unique<BatchDispatcher>(&backend_, &clock_, &metrics_);
  ClosedBatch batch;
  batch.requests.push_back(Request(0, 1, absl::Seconds(1)));
  dispatcher->Submit(std::move(batch), [](auto) {});
  dispatcher->Fail(kHung);
  dispatcher.reset();
  EXPECT_EQ(returned_, 0);
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_EQ(returned_, 2);
  EXPECT_EQ(outcomes_.count(), 1);
}

TEST_F(BatchDispatcherTest, FailCountsTheLaunchAndItsRequestsAsFailed) {
  SubmitTwo();
  dispatcher_.Fail(kHung);
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_THAT(
      MetricValue(metrics_, "qgemm_launch_errors_total{code=\"UNAVAILABLE\"}"),
      Optional(1.0));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_requests_failed_total"),
              Optional(2.0));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_launch_rows_count"), Optional(0.0));
}

// The backend's completions and Fail meet: each request ends once, and all
// memory comes back.
TEST_F(CompletionExecutorTest, FailMeetsCompletions) {
  for (int round = 0; round < 200; ++round) {
    BatchDispatcher dispatcher(&backend_, &clock_, &metrics_);
    ClosedBatch batch;
    batch.requests.push_back(Request(0, 1, absl::Seconds(1)));
    AdmittedRequest& request = *batch.requests.back().request;
    std::atomic<int> returned{0};
    request.a = StagingLease(a_, 4, [&returned] { ++returned; });
    request.c = StagingLease();
    request.done = outcomes_.Recorder(round);
    std::atomic<int> finished{0};
    dispatcher.Submit(std::move(batch), [&](auto) { ++finished; });
    std::thread completer(
        [&] { backend_.Complete(absl::OkStatus(), Timings()); });
    dispatcher.Fail(kHung);
    completer.join();
    EXPECT_EQ(finished, 1);
    EXPECT_EQ(returned, 1);
    ASSERT_EQ(outcomes_.Of(round).size(), 1u);
  }
}

}  // namespace
}  // namespace qgemm
