// SPDX-License-Identifier: Apache-2.0
//
// Scheduler, dispatcher and an asynchronous backend together: every request
// gets its own product, whatever it was merged with, and all memory returns.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "server/scheduling/batch_dispatcher.h"
#include "server/scheduling/batch_scheduler.h"
#include "tests/support/fake_async_backend.h"
#include "tests/support/fake_clock.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

constexpr int64_t kRequests = 200;

// The answers by request, [m, 1] fp32 each. Thread-safe.
class Answers {
 public:
  AdmittedRequest::Done Recorder(int64_t number) {
    return [this, number](absl::Status status, const GemmTimings& timings,
                          std::unique_ptr<AdmittedRequest> request) {
      std::vector<float> c(request->m);
      std::memcpy(c.data(), request->c.data(), c.size() * sizeof(float));
      MutexLock lock(&mutex_);
      if (!status.ok()) ++failures_;
      values_[number] = std::move(c);
      longest_queue_ = std::max(longest_queue_, timings.queue);
    };
  }

  std::vector<float> Of(int64_t number) const {
    MutexLock lock(&mutex_);
    return values_[number];
  }
  int64_t failures() const {
    MutexLock lock(&mutex_);
    return failures_;
  }
  absl::Duration longest_queue() const {
    MutexLock lock(&mutex_);
    return longest_queue_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::vector<float>> values_ ABSL_GUARDED_BY(mutex_) =
      std::vector<std::vector<float>>(kRequests);
  int64_t failures_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration longest_queue_ ABSL_GUARDED_BY(mutex_);
};

class ScheduledExecutionTest : public testing::Test {
 protected:
  // A dense layer of one weight.
  absl::StatusOr<std::shared_ptr<const ResidentWeights>> OneWeight(
      float value) {
    ASSIGN_OR_RETURN(auto builder, backend_.NewBuilder());
    WeightsHeader header;
    header.kind = WeightsHeader::Kind::kDense;
    header.n = header.k = 1;
    RETURN_IF_ERROR(builder->Begin(header));
    uint8_t bytes[2];
    StoreFloat(header.dense_type, value, bytes);
    RETURN_IF_ERROR(builder->WriteDense({0, 1, bytes}));
    return builder->Finish();
  }

  // Multiplies m rows, each the request's number.
  std::unique_ptr<AdmittedRequest> Request(
      int64_t number, int64_t m,
      std::shared_ptr<const ResidentWeights> weights) {
    auto request = std::make_unique<AdmittedRequest>();
    request->weights = std::move(weights);
    request->signature.a_type = request->signature.c_type = FloatType::kFloat32;
    request->m = m;
    request->a = backend_.AcquireStaging(m * sizeof(float)).value();
    request->c = backend_.AcquireStaging(m * sizeof(float)).value();
    const std::vector<float> rows(m, static_cast<float>(number));
    std::memcpy(request->a.data(), rows.data(), rows.size() * sizeof(float));
    request->arrival = clock_.Now();
    request->done = answers_.Recorder(number);
    return request;
  }

  RandomGenerator random_{FreshSeed()};
  FakeClock clock_;
  ServerMetrics metrics_;
  Answers answers_;
  FakeAsyncBackend backend_;
  BatchDispatcher dispatcher_{&backend_, &clock_, &metrics_};
};

TEST_F(ScheduledExecutionTest, EveryRequestGetsItsOwnProduct) {
  // Powers of two times numbers below 256 are exact in every type.
  const auto two = OneWeight(2.0f);
  const auto four = OneWeight(4.0f);
  ASSERT_TRUE(two.ok() && four.ok()) << two.status() << four.status();
  SchedulerOptions options;
  options.batching.max_requests = 8;
  std::vector<std::vector<float>> expected;
  {
    BatchScheduler scheduler(options, &dispatcher_, &clock_, &metrics_);
    for (int64_t number = 0; number < kRequests; ++number) {
      const bool doubles = RandomInt(0, 3, &random_) != 0;
      const int64_t m = RandomInt(1, 20, &random_);
      expected.emplace_back(m, (doubles ? 2.0f : 4.0f) * number);
      scheduler.Enqueue(Request(number, m, doubles ? *two : *four));
    }
  }
  dispatcher_.WaitForCompletions();
  EXPECT_EQ(answers_.failures(), 0);
  for (int64_t number = 0; number < kRequests; ++number) {
    EXPECT_EQ(answers_.Of(number), expected[number]) << "request " << number;
  }
}

TEST_F(ScheduledExecutionTest, TimeHeldIsTimeInTheQueue) {
  const auto weights = OneWeight(2.0f);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const absl::Duration hold = absl::Milliseconds(200);
  {
    BatchScheduler scheduler(SchedulerOptions(), &dispatcher_, &clock_,
                             &metrics_);
    scheduler.HoldLaunches(clock_.Now() + hold);
    scheduler.Enqueue(Request(0, 1, *weights));
    clock_.Advance(hold);
    backend_.WaitForCompleted(1);
  }
  EXPECT_EQ(answers_.longest_queue(), hold);
}

TEST_F(ScheduledExecutionTest, AllMemoryReturnsWhenLaunchesFail) {
  {
    const auto weights = OneWeight(2.0f);
    ASSERT_TRUE(weights.ok()) << weights.status();
    backend_.FailEnqueues(5, absl::ResourceExhaustedError("refused"));
    backend_.FailCompletions(5, absl::InternalError("failed"));
    BatchScheduler scheduler(SchedulerOptions(), &dispatcher_, &clock_,
                             &metrics_);
    for (int64_t number = 0; number < kRequests; ++number) {
      scheduler.Enqueue(Request(number, 1, *weights));
    }
  }
  dispatcher_.WaitForCompletions();
  EXPECT_EQ(answers_.failures(), 10);
  EXPECT_EQ(backend_.leases(), 0);
  EXPECT_EQ(backend_.memory().weights_bytes, 0);
}

}  // namespace
}  // namespace qgemm
