// SPDX-License-Identifier: Apache-2.0
//
// Batches end on the thread that attends if they are short, else on the
// backend's.

#include "kernels/matrix/completion_poller.h"

#include <chrono>
#include <thread>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/kernels/cuda/backend_test.h"

namespace qgemm::cuda {
namespace {

// More rows in places of their own than kernels move: DMA copy engines do, and
// the batch is not short.
constexpr int64_t kManyRows = 512;

class CompletionPollerTest : public CountedBatchTest {
 protected:
  void SetUp() override {
    CountedBatchTest::SetUp();
    if (IsSkipped()) return;
    poller_ = backend_->completions();
    poller_->Attend();
  }

  void WaitForCompleted(int count) const {
    while (completed_ < count) std::this_thread::yield();
  }

  CompletionPoller* poller_ = nullptr;
};

TEST_F(CompletionPollerTest, ShortBatchesEndOnTheThreadThatAttends) {
  ASSERT_EQ(poller_->Poll(), PollResult::kNothing);
  for (int batch = 1; batch <= 3; ++batch) {
    ASSERT_EQ(Enqueue(batch, ExecutionHint::kAsync), absl::OkStatus());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(completed_, batch - 1);
    PollResult result = poller_->Poll();
    while (result == PollResult::kUnderWay) result = poller_->Poll();
    EXPECT_EQ(result, PollResult::kEnded);
    EXPECT_EQ(completed_, batch);
    EXPECT_EQ(completer_, std::this_thread::get_id());
  }
  EXPECT_EQ(poller_->Poll(), PollResult::kNothing);
}

TEST_F(CompletionPollerTest, TheBackendEndsWhatIsLeft) {
  ASSERT_EQ(Enqueue(1, ExecutionHint::kAsync), absl::OkStatus());
  poller_->Leave();
  WaitForCompleted(1);
  EXPECT_NE(completer_, std::this_thread::get_id());
  EXPECT_EQ(poller_->Poll(), PollResult::kNothing);
}

TEST_F(CompletionPollerTest, TheBackendEndsLongBatches) {
  const GemmBatch batch = {
      weights_, {}, {kManyRows, RowSegment{1, a_->data(), c_->data()}}};
  ASSERT_EQ(Enqueue(batch), absl::OkStatus());
  WaitForCompleted(1);
  EXPECT_NE(completer_, std::this_thread::get_id());
}

TEST_F(CompletionPollerTest, ABatchThatWaitedForAContextEndsThereToo) {
  constexpr int kBatches = 20;
  for (int batch = 0; batch < kBatches; ++batch) {
    ASSERT_EQ(Enqueue(1, ExecutionHint::kAsync), absl::OkStatus());
  }
  int ended = 0;
  PollResult result;
  while ((result = poller_->Poll()) != PollResult::kNothing) {
    if (result == PollResult::kEnded) ++ended;
  }
  EXPECT_EQ(ended, kBatches);
  EXPECT_EQ(completed_, kBatches);
}

TEST_F(CompletionPollerTest, NobodyAttendsABackendThatIsGivenUp) {
  ASSERT_EQ(Enqueue(1, ExecutionHint::kMayRunInline), absl::OkStatus());
  ASSERT_EQ(completed_, 1);
  ASSERT_EQ(backend_->InjectFault(BackendFault::kHang), absl::OkStatus());
  ASSERT_EQ(Enqueue(1, ExecutionHint::kAsync), absl::OkStatus());
  EXPECT_EQ(poller_->Poll(), PollResult::kUnderWay);

  backend_->GiveUp(absl::UnavailableError("a launch hangs"));

  EXPECT_EQ(poller_->Poll(), PollResult::kNothing);
  poller_->Attend();
  EXPECT_EQ(poller_->Poll(), PollResult::kNothing);
  EndBackend();
  EXPECT_LE(completed_, 2);
}

}  // namespace
}  // namespace qgemm::cuda
