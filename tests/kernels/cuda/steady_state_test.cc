// SPDX-License-Identifier: Apache-2.0
//
// From Enqueue to completion, once buffers have grown: no device memory, no
// pinned memory and nothing from the host's heap is taken or given back.
// This binary counts every operator new.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/kernels/cuda/allocation_counts.h"
#include "tests/kernels/cuda/backend_test.h"

namespace {

std::atomic<int64_t> new_count{0};

void* CountedAllocation(size_t size_bytes, size_t alignment) {
  new_count.fetch_add(1, std::memory_order_relaxed);
  const size_t rounded = (size_bytes + alignment - 1) / alignment * alignment;
  void* const memory =
      std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) std::abort();
  return memory;
}

constexpr size_t kPlain = alignof(std::max_align_t);

}  // namespace

// The other forms call these.
void* operator new(size_t size_bytes) {
  return CountedAllocation(size_bytes, kPlain);
}
void* operator new(size_t size_bytes, std::align_val_t alignment) {
  return CountedAllocation(size_bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace qgemm::cuda {
namespace {

// Calls so far that took or gave back memory.
struct Counts {
  int64_t device;
  int64_t pinned;
  int64_t host;
};

Counts CountsNow() {
  return {DeviceAllocationCount() + DeviceReleaseCount(),
          PinnedAllocationCount() + PinnedReleaseCount(), new_count.load()};
}

struct SteadyCase {
  const char* recipe;
  int64_t rows;
};

class SteadyStateTest : public DeviceTest,
                        public testing::WithParamInterface<SteadyCase> {
 protected:
  static constexpr int kBatches = 4;  // one more than the backend runs at once

  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    backend_ = NewBackend();
    const auto weights = LoadWhole(
        backend_.get(), RandomWeights(WeightsRecipeNamed(GetParam().recipe),
                                      200, 512, &random_));
    const absl::Status offered =
        backend_->CheckSupport(*weights, MatmulSignature());
    if (!offered.ok()) GTEST_SKIP() << offered;
    for (int i = 0; i < kBatches; ++i) {
      batches_.push_back(std::make_unique<RepeatedBatch>(
          backend_.get(), weights, GetParam().rows, &random_));
    }
  }
  void TearDown() override {
    batches_.clear();
    backend_.reset();
  }

  // The calls of `times` rounds of all batches.
  Counts Run(int times) {
    const Counts before = CountsNow();
    for (const auto& batch : batches_) batch->Start(times);
    for (const auto& batch : batches_) {
      const absl::Status status = batch->Wait();
      EXPECT_TRUE(status.ok()) << status;
    }
    const Counts after = CountsNow();
    return {after.device - before.device, after.pinned - before.pinned,
            after.host - before.host};
  }

  // Each batch alone, so that every executor in turn has recorded it for its
  // place, then all.
  void WarmUp() {
    for (const auto& batch : batches_) {
      const absl::Status status = batch->Run(60);
      ASSERT_TRUE(status.ok()) << status;
    }
    Run(25);
  }

  RandomGenerator random_{FreshSeed()};
  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<RepeatedBatch>> batches_;
};

using DecodeTest = SteadyStateTest;
using CublasTest = SteadyStateTest;

TEST_P(DecodeTest, TakesNoMemory) {
  WarmUp();
  const Counts taken = Run(100);
  EXPECT_EQ(taken.device, 0);
  EXPECT_EQ(taken.pinned, 0);
  EXPECT_EQ(taken.host, 0);
}

// cuBLASLt's use of the host's heap is its own.
TEST_P(CublasTest, TakesNoDeviceMemory) {
  WarmUp();
  const Counts taken = Run(100);
  EXPECT_EQ(taken.device, 0);
  EXPECT_EQ(taken.pinned, 0);
  RecordProperty("host_allocations_of_400_batches", std::to_string(taken.host));
}

std::string NameOf(const testing::TestParamInfo<SteadyCase>& info) {
  return std::string(info.param.recipe) + "_m" +
         std::to_string(info.param.rows);
}

INSTANTIATE_TEST_SUITE_P(
    Batches, DecodeTest,
    testing::Values(SteadyCase{"kbit4", 1}, SteadyCase{"kbit2", 64},
                    SteadyCase{"q4_0", 16},
                    SteadyCase{"int4_g128_zeros_fp16_act_order", 8}),
    NameOf);
INSTANTIATE_TEST_SUITE_P(Batches, CublasTest,
                         testing::Values(SteadyCase{"dense_fp16", 8},
                                         SteadyCase{"dense_bf16", 300},
                                         SteadyCase{"kbit4", 5000}),
                         NameOf);

class ProgramTest : public DeviceTest,
                    public testing::WithParamInterface<int64_t> {
 protected:
  // Runs the batch and has it back.
  void Run(Backend* backend, ProgramBatch* batch) {
    std::atomic<bool> done{false};
    const absl::Status enqueued = backend->programs()->EnqueueProgram(
        std::move(*batch), [&](const absl::Status& status, const BatchTimings&,
                               ProgramBatch returned) {
          EXPECT_TRUE(status.ok()) << status;
          *batch = std::move(returned);
          done = true;
        });
    ASSERT_TRUE(enqueued.ok()) << enqueued;
    while (!done) std::this_thread::yield();
  }

  RandomGenerator random_{FreshSeed()};
};

TEST_P(ProgramTest, TakesNoMemory) {
  const std::unique_ptr<Backend> backend = NewBackend();
  const std::shared_ptr<const CompiledProgram> program =
      CompileLayer(backend.get(), &random_);
  const CheckedProgram& checked = program->program();
  const int64_t m = GetParam();
  auto inputs = backend->AcquireStaging(m * checked.input_row_bytes());
  auto outputs = backend->AcquireStaging(m * checked.output_row_bytes());
  ASSERT_TRUE(inputs.ok() && outputs.ok());
  std::fill_n(inputs->data(), inputs->size_bytes(), 0);
  ProgramBatch batch = {program, {{m, 0, m, inputs->data(), outputs->data()}}};
  for (int i = 0; i < 60; ++i) Run(backend.get(), &batch);
  const Counts before = CountsNow();
  for (int i = 0; i < 100; ++i) Run(backend.get(), &batch);
  const Counts after = CountsNow();
  EXPECT_EQ(after.device, before.device);
  EXPECT_EQ(after.pinned, before.pinned);
  EXPECT_EQ(after.host, before.host);
}

// Recorded, moved by kernels, and moved by DMA copy engines.
INSTANTIATE_TEST_SUITE_P(Rows, ProgramTest, testing::Values(1, 100, 3000));

// The counter itself: it sees what it is there to see.
TEST(CountingAllocatorTest, SeesAnAllocation) {
  const int64_t before = new_count.load();
  const auto several = std::make_unique<std::vector<int>>(7);
  EXPECT_EQ(new_count.load() - before, 2) << several->size();
}

}  // namespace
}  // namespace qgemm::cuda
