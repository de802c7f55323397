// SPDX-License-Identifier: Apache-2.0
//
// Free lists by size class. Pages are locked and unlocked outside the mutex:
// either takes milliseconds.

#include "kernels/cuda/cuda_staging_pool.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/runtime/device_info.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kSmallestBytes = 4096;

// Class 2i holds 4096 << i bytes, class 2i + 1 half as much again.
int64_t ClassBytes(int size_class) {
  const int64_t base = kSmallestBytes << (size_class / 2);
  return size_class % 2 == 0 ? base : base + base / 2;
}

}  // namespace

absl::StatusOr<StagingLease> CudaStagingPool::Acquire(int64_t size_bytes) {
  int size_class = 0;
  while (size_class < kClasses && ClassBytes(size_class) < size_bytes) {
    ++size_class;
  }
  if (size_bytes < 0 || size_class == kClasses) {
    return absl::ResourceExhaustedError(
        absl::StrCat("staging: ", size_bytes, " bytes; the largest buffer is ",
                     ClassBytes(kClasses - 1)));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer, Take(size_class));
  uint8_t* data = buffer->memory.data();
  // Two pointers fit a lease's callback without a heap block of its own.
  return StagingLease(data, size_bytes, [this, leased = buffer.release()] {
    Release(std::unique_ptr<Buffer>(leased));
  });
}

absl::StatusOr<std::unique_ptr<CudaStagingPool::Buffer>> CudaStagingPool::Take(
    int size_class) {
  ASSIGN_OR_RETURN(std::unique_ptr<Buffer> pooled, TakePooled(size_class));
  if (pooled != nullptr) return pooled;
  const int64_t bytes = ClassBytes(size_class);
  absl::Status status = SetCurrentDevice(device_);
  if (status.ok()) {
    absl::StatusOr<PinnedBuffer> memory = PinnedBuffer::Allocate(bytes);
    if (memory.ok()) {
      return std::make_unique<Buffer>(Buffer{*std::move(memory), size_class});
    }
    status = memory.status();
  }
  MutexLock lock(&mutex_);
  leased_bytes_ -= bytes;
  return status;
}

absl::StatusOr<std::unique_ptr<CudaStagingPool::Buffer>>
CudaStagingPool::TakePooled(int size_class) {
  const int64_t bytes = ClassBytes(size_class);
  MutexLock lock(&mutex_);
  std::vector<std::unique_ptr<Buffer>>& free = free_[size_class];
  if (free.empty() && bytes > limits_.max_bytes - leased_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("staging: ", bytes, " bytes on top of ", leased_bytes_,
                     " leased; the limit is ", limits_.max_bytes));
  }
  leased_bytes_ += bytes;
  if (free.empty()) return nullptr;
  std::unique_ptr<Buffer> buffer = std::move(free.back());
  free.pop_back();
  pooled_bytes_ -= bytes;
  return buffer;
}

void CudaStagingPool::Release(std::unique_ptr<Buffer> buffer) {
  const int64_t bytes = ClassBytes(buffer->size_class);
  MutexLock lock(&mutex_);
  leased_bytes_ -= bytes;
  if (pooled_bytes_ + bytes <= limits_.max_pooled_bytes) {
    pooled_bytes_ += bytes;
    free_[buffer->size_class].push_back(std::move(buffer));
  }
}

int64_t CudaStagingPool::held_bytes() const {
  MutexLock lock(&mutex_);
  return leased_bytes_ + pooled_bytes_;
}

int64_t CudaStagingPool::leased_bytes() const {
  MutexLock lock(&mutex_);
  return leased_bytes_;
}

}  // namespace qgemm::cuda
