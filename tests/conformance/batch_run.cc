// SPDX-License-Identifier: Apache-2.0
//
// Staging with guard zones around every C.

#include "tests/conformance/batch_run.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "gtest/gtest.h"
#include "tests/support/panel_writer.h"

namespace qgemm {
namespace {

// Before and after C; keeps it on a 64-byte boundary.
constexpr int64_t kGuardBytes = 128;

}  // namespace

BatchRun::BatchRun(Backend* backend, BatchSpec spec)
    : backend_(backend), spec_(std::move(spec)) {
  batch_.weights = spec_.weights;
  batch_.signature = spec_.signature;
  batch_.hint = spec_.hint;
  for (const RequestRows& request : spec_.requests) Stage(request);
}

void BatchRun::Stage(const RequestRows& request) {
  Operands operands;
  operands.c_bytes =
      request.rows * spec_.weights->n() * SizeOf(spec_.signature.c_type);
  absl::StatusOr<StagingLease> a = backend_->AcquireStaging(request.a.size());
  CHECK(a.ok()) << a.status();
  absl::StatusOr<StagingLease> c =
      backend_->AcquireStaging(operands.c_bytes + 2 * kGuardBytes);
  CHECK(c.ok()) << c.status();
  std::copy(request.a.begin(), request.a.end(), a->data());
  std::fill_n(c->data(), c->size_bytes(), spec_.poison);
  batch_.segments.push_back({request.rows, a->data(), c->data() + kGuardBytes});
  operands.a = *std::move(a);
  operands.c = *std::move(c);
  operands_.push_back(std::move(operands));
}

absl::Status BatchRun::Enqueue() {
  return backend_->Enqueue(
      std::move(batch_),
      [this](absl::Status status, const BatchTimings&, GemmBatch batch) {
        Complete(std::move(status), batch);
      });
}

void BatchRun::Complete(absl::Status status, const GemmBatch& batch) {
  MutexLock lock(&mutex_);
  ++completions_;
  status_ = std::move(status);
  if (batch.weights == spec_.weights) {
    returned_segments_ = static_cast<int64_t>(batch.segments.size());
  }
  // Under the lock: the waiter may destroy this as soon as it is let go.
  completed_.SignalAll();
}

BatchResults BatchRun::Wait() {
  {
    MutexLock lock(&mutex_);
    while (completions_ == 0) completed_.Wait(&mutex_);
    EXPECT_EQ(status_, absl::OkStatus());
    EXPECT_EQ(returned_segments_, static_cast<int64_t>(operands_.size()))
        << "the batch did not come back with its weights and segments";
  }
  BatchResults results;
  for (size_t i = 0; i < operands_.size(); ++i) {
    CheckMemory(i);
    const uint8_t* c = operands_[i].c.data() + kGuardBytes;
    results.emplace_back(c, c + operands_[i].c_bytes);
  }
  return results;
}

int64_t BatchRun::completions() const {
  MutexLock lock(&mutex_);
  return completions_;
}

void BatchRun::CheckMemory(size_t request) const {
  const Operands& operands = operands_[request];
  const std::vector<uint8_t>& a = spec_.requests[request].a;
  EXPECT_TRUE(std::equal(a.begin(), a.end(), operands.a.data()))
      << "the backend wrote to A of request " << request;
  const auto is_poison = [this](uint8_t byte) { return byte == spec_.poison; };
  const uint8_t* before = operands.c.data();
  const uint8_t* after = before + kGuardBytes + operands.c_bytes;
  EXPECT_TRUE(std::all_of(before, before + kGuardBytes, is_poison))
      << "written before C of request " << request;
  EXPECT_TRUE(std::all_of(after, after + kGuardBytes, is_poison))
      << "written after C of request " << request;
}

BatchResults RunBatch(Backend* backend, BatchSpec spec) {
  BatchRun run(backend, std::move(spec));
  const absl::Status status = run.Enqueue();
  CHECK(status.ok()) << status;
  return run.Wait();
}

std::shared_ptr<const ResidentWeights> LoadWhole(
    Backend* backend, const CanonicalWeights& weights) {
  absl::StatusOr<std::unique_ptr<WeightsBuilder>> builder =
      backend->NewBuilder();
  CHECK(builder.ok()) << builder.status();
  CHECK_OK(WriteWhole(weights, builder->get()));
  absl::StatusOr<std::shared_ptr<const ResidentWeights>> resident =
      (*builder)->Finish();
  CHECK(resident.ok()) << resident.status();
  return *std::move(resident);
}

}  // namespace qgemm
