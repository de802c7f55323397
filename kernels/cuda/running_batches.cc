// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/running_batches.h"

#include <utility>

namespace qgemm::cuda {

bool RunningBatches::HasOwn() const {
  return !batches_.empty() &&
         !(is_attended_ && batches_.front().context->is_short());
}

RunningBatch RunningBatches::Take() {
  RunningBatch batch = std::move(batches_.front());
  batches_.erase(batches_.begin());
  return batch;
}

void RunningBatches::Push(RunningBatch batch) {
  {
    MutexLock lock(&mutex_);
    batches_.push_back(std::move(batch));
    // A signal wakes the thread, whether or not it finds a batch.
    if (!HasOwn()) return;
  }
  has_own_.Signal();
}

std::optional<RunningBatch> RunningBatches::Pop() {
  MutexLock lock(&mutex_);
  while (!HasOwn()) {
    if (closed_) return std::nullopt;
    has_own_.Wait(&mutex_);
  }
  return Take();
}

void RunningBatches::SetAttended(bool is_attended) {
  {
    MutexLock lock(&mutex_);
    is_attended_ = is_attended && may_be_attended_;
    if (!HasOwn()) return;
  }
  has_own_.Signal();
}

PollResult RunningBatches::PopIfDone(RunningBatch* batch) {
  MutexLock lock(&mutex_);
  if (!is_attended_ || batches_.empty() || HasOwn()) {
    return PollResult::kNothing;
  }
  if (!batches_.front().context->LookIfDone()) return PollResult::kUnderWay;
  *batch = Take();
  if (HasOwn()) has_own_.Signal();
  return PollResult::kEnded;
}

void RunningBatches::Close() {
  EndAttendance();
  {
    MutexLock lock(&mutex_);
    closed_ = true;
  }
  has_own_.SignalAll();
}

void RunningBatches::EndAttendance() {
  {
    MutexLock lock(&mutex_);
    may_be_attended_ = false;
    is_attended_ = false;
  }
  has_own_.Signal();
}

}  // namespace qgemm::cuda
