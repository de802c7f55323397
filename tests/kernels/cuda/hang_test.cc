// SPDX-License-Identifier: Apache-2.0
//
// A kernel that does not end: no thread waits for it for ever, and the backend
// that is given up takes no more batches.

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/kernels/cuda/backend_test.h"

namespace qgemm::cuda {
namespace {

using HangTest = CountedBatchTest;

TEST_F(HangTest, ACallerThatMayRunABatchInlineComesBack) {
  ASSERT_EQ(Enqueue(1, ExecutionHint::kMayRunInline), absl::OkStatus());
  EXPECT_EQ(completed_, 1);
  ASSERT_EQ(backend_->InjectFault(BackendFault::kHang), absl::OkStatus());
  EXPECT_EQ(Enqueue(1, ExecutionHint::kMayRunInline), absl::OkStatus());
  EXPECT_EQ(completed_, 1);
  EXPECT_EQ(backend_->failure(), absl::OkStatus());
}

TEST_F(HangTest, ABackendThatIsGivenUpRefusesBatchesAndEnds) {
  ASSERT_EQ(Enqueue(1, ExecutionHint::kMayRunInline), absl::OkStatus());
  ASSERT_EQ(backend_->InjectFault(BackendFault::kHang), absl::OkStatus());
  ASSERT_EQ(Enqueue(1, ExecutionHint::kAsync), absl::OkStatus());
  ASSERT_EQ(Enqueue(2, ExecutionHint::kAsync), absl::OkStatus());

  backend_->GiveUp(absl::UnavailableError("a launch hangs"));

  EXPECT_TRUE(absl::IsUnavailable(backend_->failure()));
  EXPECT_EQ(Enqueue(1, ExecutionHint::kAsync), backend_->failure());
  EXPECT_EQ(backend_->NewBuilder().status(), backend_->failure());
  EndBackend();
  EXPECT_LE(completed_, 3);
}

class ProgramHangTest : public HangTest {
 protected:
  void SetUp() override {
    HangTest::SetUp();
    if (IsSkipped()) return;
    // Nothing in flight would keep them, and to free them waits for kernels.
    weights_.reset();
    program_ = CompileLayer(backend_.get(), &random_);
    std::fill_n(a_->data(), a_->size_bytes(), 0);
  }

  absl::Status EnqueueProgram(int64_t m) {
    return backend_->programs()->EnqueueProgram(
        {program_, {{m, 0, m, a_->data(), c_->data()}}},
        [this, a = a_, c = c_](const absl::Status&, const BatchTimings&,
                               ProgramBatch) { ++completed_; });
  }

  std::shared_ptr<const CompiledProgram> program_;
};

// Recorded batches of all contexts share a stream.
TEST_F(ProgramHangTest, ABackendThatIsGivenUpRefusesProgramsAndEnds) {
  ASSERT_EQ(EnqueueProgram(1), absl::OkStatus());
  while (completed_ < 1) std::this_thread::yield();
  ASSERT_EQ(backend_->InjectFault(BackendFault::kHang), absl::OkStatus());
  ASSERT_EQ(EnqueueProgram(1), absl::OkStatus());
  ASSERT_EQ(EnqueueProgram(2), absl::OkStatus());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(completed_, 1);

  backend_->GiveUp(absl::UnavailableError("a launch hangs"));

  EXPECT_EQ(EnqueueProgram(1), backend_->failure());
  program_.reset();
  EndBackend();
  EXPECT_LE(completed_, 3);
}

}  // namespace
}  // namespace qgemm::cuda
