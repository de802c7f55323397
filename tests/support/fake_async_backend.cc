// SPDX-License-Identifier: Apache-2.0
//
// Two queues, held and released, and the thread that empties the second.

#include "tests/support/fake_async_backend.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "kernels/host/batch_checks.h"
#include "kernels/reference/reference_matmul.h"
#include "kernels/reference/reference_program.h"

namespace qgemm {

absl::Status FakeAsyncBackend::Failures::Next() {
  if (count == 0) return absl::OkStatus();
  --count;
  return status;
}

void FakeAsyncBackend::Entry::Compute() {
  if (program.program == nullptr) return reference::ReferenceMatmul(batch);
  timings.ops = reference::ReferenceRun(program);
}

void FakeAsyncBackend::Entry::End(const absl::Status& status) {
  if (program.program == nullptr) {
    return completion(status, timings, std::move(batch));
  }
  program_completion(status, timings, std::move(program));
}

FakeAsyncBackend::FakeAsyncBackend(const FakeAsyncBackendOptions& options)
    : options_(options),
      weights_memory_({"weights", options.memory_bytes, "", nullptr}),
      staging_memory_({"staging", options.memory_bytes, "", nullptr}),
      thread_([this] { CompleteBatches(); }) {}

FakeAsyncBackend::~FakeAsyncBackend() {
  ReleaseAll();
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  thread_.join();
}

void FakeAsyncBackend::Hold() {
  MutexLock lock(&mutex_);
  holding_ = true;
}

void FakeAsyncBackend::ReleaseAll() {
  {
    MutexLock lock(&mutex_);
    holding_ = false;
    while (!held_.empty()) {
      released_.push_back(std::move(held_.front()));
      held_.pop_front();
    }
  }
  changed_.SignalAll();
}

void FakeAsyncBackend::Release(int64_t index) {
  {
    MutexLock lock(&mutex_);
    CHECK_LT(index, static_cast<int64_t>(held_.size()));
    released_.push_back(std::move(held_[index]));
    held_.erase(held_.begin() + index);
  }
  changed_.SignalAll();
}

void FakeAsyncBackend::HoldStaging(int64_t min_bytes) {
  MutexLock lock(&mutex_);
  held_staging_bytes_ = min_bytes;
}

void FakeAsyncBackend::ReleaseStaging() {
  {
    MutexLock lock(&mutex_);
    held_staging_bytes_.reset();
  }
  changed_.SignalAll();
}

void FakeAsyncBackend::WaitForHeldStaging(int64_t count) {
  MutexLock lock(&mutex_);
  while (held_staging_ < count) changed_.Wait(&mutex_);
}

void FakeAsyncBackend::WaitWhileStagingIsHeld(int64_t size_bytes) {
  const auto is_held = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return held_staging_bytes_.has_value() &&
           size_bytes >= *held_staging_bytes_;
  };
  if (!is_held()) return;
  ++held_staging_;
  changed_.SignalAll();
  while (is_held()) changed_.Wait(&mutex_);
  --held_staging_;
}

void FakeAsyncBackend::WaitForHeld(int64_t count) {
  MutexLock lock(&mutex_);
  while (static_cast<int64_t>(held_.size()) < count) changed_.Wait(&mutex_);
}

void FakeAsyncBackend::WaitForCompleted(int64_t count) {
  MutexLock lock(&mutex_);
  while (completed_ < count) changed_.Wait(&mutex_);
}

void FakeAsyncBackend::FailCompletions(int64_t count, absl::Status status) {
  MutexLock lock(&mutex_);
  completion_failures_ = {count, std::move(status)};
}

void FakeAsyncBackend::FailEnqueues(int64_t count, absl::Status status) {
  MutexLock lock(&mutex_);
  enqueue_failures_ = {count, std::move(status)};
}

void FakeAsyncBackend::FailStaging(int64_t count, absl::Status status) {
  MutexLock lock(&mutex_);
  staging_failures_ = {count, std::move(status)};
}

void FakeAsyncBackend::FailBuilders(int64_t count, absl::Status status) {
  MutexLock lock(&mutex_);
  builder_failures_ = {count, std::move(status)};
}

int64_t FakeAsyncBackend::enqueued() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(enqueued_rows_.size());
}

int64_t FakeAsyncBackend::completed() const {
  MutexLock lock(&mutex_);
  return completed_;
}

int64_t FakeAsyncBackend::polled() const {
  MutexLock lock(&mutex_);
  return polled_;
}

bool FakeAsyncBackend::is_attended() const {
  MutexLock lock(&mutex_);
  return is_attended_;
}

int64_t FakeAsyncBackend::held() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(held_.size());
}

std::vector<int64_t> FakeAsyncBackend::enqueued_rows() const {
  MutexLock lock(&mutex_);
  return enqueued_rows_;
}

absl::StatusOr<std::unique_ptr<WeightsBuilder>> FakeAsyncBackend::NewBuilder() {
  RETURN_IF_ERROR(failure());
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(builder_failures_.Next());
  return reference::NewReferenceBuilder(options_.limits, &weights_memory_);
}

int64_t FakeAsyncBackend::EstimateResidentBytes(
    const WeightsShape& shape) const {
  return reference::CanonicalBytes(shape);
}

absl::StatusOr<StagingLease> FakeAsyncBackend::AcquireStaging(
    int64_t size_bytes) {
  {
    MutexLock lock(&mutex_);
    WaitWhileStagingIsHeld(size_bytes);
    RETURN_IF_ERROR(staging_failures_.Next());
  }
  ASSIGN_OR_RETURN(StagingLease lease,
                   reference::AcquireHostStaging(size_bytes, &staging_memory_));
  ++leases_;
  uint8_t* const bytes = lease.data();
  return StagingLease(bytes, size_bytes,
                      [this, lease = std::move(lease)]() mutable {
                        lease = StagingLease();
                        --leases_;
                      });
}

absl::StatusOr<StagingLease> FakeAsyncBackend::LeaseHostMemory(
    uint8_t* data, int64_t size_bytes) {
  ++leases_;
  return StagingLease(data, size_bytes, [this] { --leases_; });
}

absl::StatusOr<StagingLease> FakeAsyncBackend::ImportDeviceMemory(
    const DeviceMemory& memory) {
  struct stat status = {};
  if (memory.device_uuid != DeviceMemory().device_uuid ||
      fstat(memory.descriptor, &status) != 0 ||
      status.st_size < memory.size_bytes) {
    return absl::InvalidArgumentError("no memory of the fake's GPU");
  }
  void* const data = mmap(nullptr, memory.size_bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED, memory.descriptor, 0);
  if (data == MAP_FAILED) {
    return absl::InvalidArgumentError("memory that cannot be mapped");
  }
  ++leases_;
  return StagingLease(static_cast<uint8_t*>(data), memory.size_bytes,
                      [this, data, size = memory.size_bytes] {
                        munmap(data, size);
                        --leases_;
                      });
}

absl::Status FakeAsyncBackend::CheckSupport(
    const ResidentWeights& weights, const MatmulSignature& signature) const {
  return reference::CheckReferenceSupport(
      static_cast<const reference::ReferenceWeights&>(weights)
          .canonical()
          .header(),
      signature);
}

absl::Status FakeAsyncBackend::Enqueue(GemmBatch batch,
                                       BatchCompletion completion) {
  RETURN_IF_ERROR(failure());
  RETURN_IF_ERROR(CheckBatch(batch, options_.limits.max_batch_rows));
  RETURN_IF_ERROR(CheckSupport(*batch.weights, batch.signature));
  const int64_t rows = batch.rows();
  return Take({std::move(batch), std::move(completion), {}, nullptr}, rows);
}

absl::StatusOr<std::shared_ptr<const CompiledProgram>>
FakeAsyncBackend::Compile(std::shared_ptr<const CheckedProgram> program,
                          WeightsOfProgram weights) {
  RETURN_IF_ERROR(CheckProgramSupport(*this, *program, weights));
  return reference::NewReferenceProgram(std::move(program), std::move(weights));
}

absl::Status FakeAsyncBackend::EnqueueProgram(ProgramBatch batch,
                                              ProgramCompletion completion) {
  RETURN_IF_ERROR(failure());
  RETURN_IF_ERROR(CheckProgramBatch(batch, options_.limits.max_batch_rows));
  const int64_t rows = batch.rows();
  return Take({{}, nullptr, std::move(batch), std::move(completion)}, rows);
}

absl::Status FakeAsyncBackend::Take(Entry entry, int64_t rows) {
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(enqueue_failures_.Next());
    enqueued_rows_.push_back(rows);
    std::deque<Entry>& queue = holding_ ? held_ : released_;
    queue.push_back(std::move(entry));
  }
  changed_.SignalAll();
  return absl::OkStatus();
}

void FakeAsyncBackend::GiveUp(const absl::Status& reason) {
  failure_.Set(
      absl::StrCat("fake backend: given up after: ", reason.message()));
}

absl::Status FakeAsyncBackend::InjectFault(BackendFault fault) {
  if (fault == BackendFault::kHang) {
    Hold();
  } else {
    failure_.Set("fake backend: the device is lost");
    ReleaseAll();
  }
  return absl::OkStatus();
}

BackendDescription FakeAsyncBackend::describe() const {
  return {"fake", "test", "fp64, completes under test control", 1};
}

BackendMemory FakeAsyncBackend::memory() const {
  return {weights_memory_.used_bytes(), staging_memory_.used_bytes(),
          options_.memory_bytes, staging_memory_.used_bytes()};
}

void FakeAsyncBackend::Attend() {
  MutexLock lock(&mutex_);
  is_attended_ = true;
}

void FakeAsyncBackend::Leave() {
  {
    MutexLock lock(&mutex_);
    is_attended_ = false;
  }
  changed_.SignalAll();
}

PollResult FakeAsyncBackend::Poll() {
  Entry entry;
  {
    MutexLock lock(&mutex_);
    if (!is_attended_) return PollResult::kNothing;
    if (released_.empty()) {
      return held_.empty() ? PollResult::kNothing : PollResult::kUnderWay;
    }
    entry = std::move(released_.front());
    released_.pop_front();
    ++polled_;
  }
  Complete(std::move(entry));
  return PollResult::kEnded;
}

void FakeAsyncBackend::CompleteBatches() {
  while (true) {
    Entry entry;
    {
      MutexLock lock(&mutex_);
      while ((released_.empty() || is_attended_) && !stopping_) {
        changed_.Wait(&mutex_);
      }
      if (released_.empty()) return;
      entry = std::move(released_.front());
      released_.pop_front();
    }
    Complete(std::move(entry));
  }
}

void FakeAsyncBackend::Complete(Entry entry) {
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    status = completion_failures_.Next();
  }
  if (status.ok()) status = failure();
  if (status.ok() && options_.computes) entry.Compute();
  entry.End(status);
  {
    MutexLock lock(&mutex_);
    ++completed_;
  }
  changed_.SignalAll();
}

}  // namespace qgemm
