// SPDX-License-Identifier: Apache-2.0

#include "server/execution/batch_executor.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/execution/scripted_backend.h"
#include "tests/server/metrics/metrics_text.h"
#include "tests/server/scheduling/outcomes.h"
#include "tests/support/fake_clock.h"

namespace qgemm {
namespace {

using ::testing::Optional;

class EmptyWeights final : public ResidentWeights {
 public:
  EmptyWeights() : ResidentWeights(1, 1) {}
  int64_t resident_bytes() const override { return 0; }
};

class BatchExecutorTest : public testing::Test {
 protected:
  // Waits for `waited` already; its operands are bytes [4 * number, + 4) of
  // a_ and c_.
  std::unique_ptr<GemmRequest> Request(int64_t number, int64_t rows,
                                       absl::Duration waited) {
    auto request = std::make_unique<GemmRequest>();
    request->weights = weights_;
    request->signature.mode = ComputeMode::kA32;
    request->m = rows;
    request->a = StagingLease(a_ + 4 * number, 4, [this] { ++returned_; });
    request->c = StagingLease(c_ + 4 * number, 4, [this] { ++returned_; });
    request->arrival = clock_.Now() - waited;
    request->done = outcomes_.Recorder(number);
    return request;
  }

  // Two requests of 3 and 5 rows.
  void SubmitTwo() {
    ClosedBatch batch;
    batch.requests.push_back(Request(0, 3, absl::Seconds(8)));
    batch.requests.push_back(Request(1, 5, absl::Seconds(2)));
    executor_.Submit(std::move(batch), [this] {
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
    return timings;
  }

  uint8_t a_[8] = {};
  uint8_t c_[8] = {};
  int returned_ = 0;  // leases
  int finished_ = 0;
  int64_t ended_before_finished_ = 0;
  FakeClock clock_;
  ServerMetrics metrics_;
  Outcomes outcomes_;
  std::shared_ptr<const ResidentWeights> weights_ =
      std::make_shared<EmptyWeights>();
  ScriptedBackend backend_;
  BatchExecutor executor_{&backend_, &clock_, &metrics_};
};

TEST_F(BatchExecutorTest, SegmentsPointIntoTheLeasesInOrder) {
  SubmitTwo();
  const GemmBatch& batch = backend_.batch();
  ASSERT_EQ(batch.segments.size(), 2u);
  EXPECT_EQ(batch.segments[0].rows, 3);
  EXPECT_EQ(batch.segments[0].a, a_);
  EXPECT_EQ(batch.segments[0].c, c_);
  EXPECT_EQ(batch.segments[1].rows, 5);
  EXPECT_EQ(batch.segments[1].a, a_ + 4);
  EXPECT_EQ(batch.segments[1].c, c_ + 4);
  backend_.Complete(absl::OkStatus(), Timings());
}

TEST_F(BatchExecutorTest, LaunchHasTheRequestsWeightsAndSignature) {
  SubmitTwo();
  EXPECT_EQ(backend_.batch().weights, weights_);
  EXPECT_EQ(backend_.batch().signature.mode, ComputeMode::kA32);
  backend_.Complete(absl::OkStatus(), Timings());
}

TEST_F(BatchExecutorTest, LeasesStayUntilTheLaunchEnds) {
  SubmitTwo();
  EXPECT_EQ(returned_, 0);
  EXPECT_EQ(outcomes_.count(), 0);
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_EQ(returned_, 4);
}

TEST_F(BatchExecutorTest, WeightsAreReleasedWhenTheLaunchEnds) {
  SubmitTwo();
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_EQ(weights_.use_count(), 1);
}

TEST_F(BatchExecutorTest, QueueTimeIsEachRequestsOwnWithTheBackendsWait) {
  SubmitTwo();
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_EQ(outcomes_.Of(0).at(0).timings.queue, absl::Seconds(9));
  EXPECT_EQ(outcomes_.Of(1).at(0).timings.queue, absl::Seconds(3));
}

TEST_F(BatchExecutorTest, TimeAfterTheStartIsNotQueueTime) {
  SubmitTwo();
  clock_.Advance(absl::Seconds(100));
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_EQ(outcomes_.Of(1).at(0).timings.queue, absl::Seconds(3));
}

TEST_F(BatchExecutorTest, OtherTimesAndSizesAreTheLaunches) {
  SubmitTwo();
  backend_.Complete(absl::OkStatus(), Timings());
  const GemmTimings timings = outcomes_.Of(1).at(0).timings;
  EXPECT_EQ(timings.host_to_device, absl::Seconds(16));
  EXPECT_EQ(timings.kernel, absl::Seconds(32));
  EXPECT_EQ(timings.device_to_host, absl::Seconds(64));
  EXPECT_EQ(timings.launch_rows, 8);
  EXPECT_EQ(timings.launch_requests, 2);
}

TEST_F(BatchExecutorTest, FinishesOnceAfterEveryRequestHasEnded) {
  SubmitTwo();
  EXPECT_EQ(finished_, 0);
  backend_.Complete(absl::OkStatus(), Timings());
  EXPECT_EQ(finished_, 1);
  EXPECT_EQ(ended_before_finished_, 2);
}

TEST_F(BatchExecutorTest, FailedLaunchEndsEveryRequestWithItsStatus) {
  const absl::Status failure = absl::InternalError("the device fell off");
  SubmitTwo();
  backend_.Complete(failure, BatchTimings());
  EXPECT_EQ(outcomes_.Of(0).at(0).status, failure);
  EXPECT_EQ(outcomes_.Of(1).at(0).status, failure);
  EXPECT_EQ(finished_, 1);
}

TEST_F(BatchExecutorTest, RefusedLaunchEndsEveryRequestWithItsStatus) {
  const absl::Status refusal = absl::UnimplementedError("no such kernel");
  backend_.AnswerEnqueue(refusal);
  SubmitTwo();
  EXPECT_EQ(outcomes_.Of(0).at(0).status, refusal);
  EXPECT_EQ(outcomes_.Of(1).at(0).status, refusal);
  EXPECT_EQ(finished_, 1);
  EXPECT_EQ(ended_before_finished_, 2);
}

TEST_F(BatchExecutorTest, CountsLaunchesByTheirOldestRequest) {
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

TEST_F(BatchExecutorTest, CountsFailedLaunchesApart) {
  SubmitTwo();
  backend_.Complete(absl::InternalError("the device fell off"), Timings());
  EXPECT_THAT(
      MetricValue(metrics_, "qgemm_launch_errors_total{code=\"INTERNAL\"}"),
      Optional(1.0));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_launch_rows_count"), Optional(0.0));
}

}  // namespace
}  // namespace qgemm
