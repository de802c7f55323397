// SPDX-License-Identifier: Apache-2.0
//
// That the fake does what a test tells it to.

#include "tests/support/fake_async_backend.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"
#include "gtest/gtest.h"
#include "tests/support/panel_writer.h"
#include "tests/support/random_weights.h"

namespace qgemm {
namespace {

constexpr MatmulSignature kSignature = {FloatType::kFloat16,
                                        FloatType::kFloat16};

class FakeAsyncBackendTest : public testing::Test {
 protected:
  FakeAsyncBackendTest() : backend_(std::make_unique<FakeAsyncBackend>()) {
    RandomGenerator random(FreshSeed());
    auto builder = *backend_->NewBuilder();
    CHECK_OK(WriteWhole(
        RandomWeights(WeightsRecipeNamed("int4_gk_fp16"), 1, 1, &random),
        builder.get()));
    weights_ = *builder->Finish();
    operands_ = std::make_shared<StagingLease>(*backend_->AcquireStaging(128));
    StoreFloat(FloatType::kFloat16, 1.0f, operands_->data());
  }

  // A batch of one row whose completion writes `id` into order().
  absl::Status Enqueue(int id) {
    GemmBatch batch = {weights_, kSignature, {{1, operands_->data(), c()}}};
    return backend_->Enqueue(
        std::move(batch),
        [this, id, operands = operands_](absl::Status status,
                                         const BatchTimings&, GemmBatch) {
          MutexLock lock(&mutex_);
          order_.push_back(id);
          statuses_.push_back(std::move(status));
        });
  }

  FakeAsyncBackend* backend() { return backend_.get(); }
  uint8_t* c() { return operands_->data() + 64; }
  std::vector<int> order() {
    MutexLock lock(&mutex_);
    return order_;
  }
  std::vector<absl::Status> statuses() {
    MutexLock lock(&mutex_);
    return statuses_;
  }
  void DestroyBackend() {
    weights_.reset();
    operands_.reset();
    backend_.reset();
  }

 private:
  Mutex mutex_;
  std::vector<int> order_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Status> statuses_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<FakeAsyncBackend> backend_;
  std::shared_ptr<const ResidentWeights> weights_;
  // Shared with the completions: a batch must not outlive its operands.
  std::shared_ptr<StagingLease> operands_;
};

TEST_F(FakeAsyncBackendTest, CompletesInOrderUnlessHeld) {
  for (int id = 0; id < 5; ++id) ASSERT_EQ(Enqueue(id), absl::OkStatus());
  backend()->WaitForCompleted(5);
  EXPECT_EQ(order(), (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST_F(FakeAsyncBackendTest, CompletesHeldBatchesInTheOrderOfTheirRelease) {
  backend()->Hold();
  for (int id = 0; id < 3; ++id) ASSERT_EQ(Enqueue(id), absl::OkStatus());
  backend()->WaitForHeld(3);
  backend()->Release(2);
  backend()->WaitForCompleted(1);
  EXPECT_EQ(order(), (std::vector<int>{2}));
  EXPECT_EQ(backend()->held(), 2);
  backend()->Release(1);
  backend()->ReleaseAll();
  backend()->WaitForCompleted(3);
  EXPECT_EQ(order(), (std::vector<int>{2, 1, 0}));
}

TEST_F(FakeAsyncBackendTest, DestroyingItReleasesWhatIsHeld) {
  backend()->Hold();
  ASSERT_EQ(Enqueue(7), absl::OkStatus());
  DestroyBackend();
  EXPECT_EQ(order(), (std::vector<int>{7}));
}

TEST_F(FakeAsyncBackendTest, FailsCompletionsOnDemandAndLeavesC) {
  c()[0] = 0xa5;
  c()[1] = 0xa5;
  backend()->FailCompletions(1, absl::InternalError("told to"));
  ASSERT_EQ(Enqueue(0), absl::OkStatus());
  backend()->WaitForCompleted(1);
  EXPECT_EQ(c()[0], 0xa5);
  EXPECT_EQ(c()[1], 0xa5);
  ASSERT_EQ(Enqueue(1), absl::OkStatus());
  backend()->WaitForCompleted(2);
  EXPECT_EQ(statuses(), (std::vector<absl::Status>{
                            absl::InternalError("told to"), absl::OkStatus()}));
}

TEST_F(FakeAsyncBackendTest, FailsEnqueuesOnDemand) {
  backend()->FailEnqueues(1, absl::UnavailableError("told to"));
  EXPECT_EQ(Enqueue(0), absl::UnavailableError("told to"));
  EXPECT_EQ(backend()->enqueued(), 0);
  EXPECT_EQ(Enqueue(1), absl::OkStatus());
  backend()->WaitForCompleted(1);
  EXPECT_EQ(order(), (std::vector<int>{1}));
}

TEST_F(FakeAsyncBackendTest, FailsStagingAndBuildersOnDemand) {
  backend()->FailStaging(1, absl::ResourceExhaustedError("no staging"));
  backend()->FailBuilders(1, absl::ResourceExhaustedError("no builder"));
  EXPECT_EQ(backend()->AcquireStaging(1).status(),
            absl::ResourceExhaustedError("no staging"));
  EXPECT_EQ(backend()->NewBuilder().status(),
            absl::ResourceExhaustedError("no builder"));
  EXPECT_TRUE(backend()->AcquireStaging(1).ok());
  EXPECT_TRUE(backend()->NewBuilder().ok());
}

TEST_F(FakeAsyncBackendTest, CountsLeases) {
  const int64_t before = backend()->leases();
  {
    auto lease = backend()->AcquireStaging(10);
    EXPECT_EQ(backend()->leases(), before + 1);
  }
  EXPECT_EQ(backend()->leases(), before);
}

TEST_F(FakeAsyncBackendTest, RecordsTheRowsOfEachBatch) {
  ASSERT_EQ(Enqueue(0), absl::OkStatus());
  ASSERT_EQ(Enqueue(1), absl::OkStatus());
  EXPECT_EQ(backend()->enqueued_rows(), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(backend()->enqueued(), 2);
}

}  // namespace
}  // namespace qgemm
