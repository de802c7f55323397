// SPDX-License-Identifier: Apache-2.0
//
// Free lists by size class.

#include "kernels/cpu/staging_pool.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr int64_t kSmallestBytes = 4096;

// Class 2i holds 4096 << i bytes, class 2i + 1 half as much again.
int64_t ClassBytes(int size_class) {
  const int64_t base = kSmallestBytes << (size_class / 2);
  return size_class % 2 == 0 ? base : base + base / 2;
}

}  // namespace

absl::StatusOr<StagingLease> StagingPool::Acquire(int64_t size_bytes) {
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

absl::StatusOr<std::unique_ptr<StagingPool::Buffer>> StagingPool::Take(
    int size_class) {
  MutexLock lock(&mutex_);
  std::vector<std::unique_ptr<Buffer>>& free = free_[size_class];
  if (!free.empty()) {
    std::unique_ptr<Buffer> buffer = std::move(free.back());
    free.pop_back();
    pooled_bytes_ -= buffer->memory.held_bytes();
    leased_bytes_ += buffer->memory.held_bytes();
    return buffer;
  }
  const int64_t bytes = ClassBytes(size_class);
  if (leased_bytes_ + bytes > max_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("staging: ", bytes, " bytes on top of ", leased_bytes_,
                     " leased; the limit is ", max_bytes_));
  }
  ASSIGN_OR_RETURN(AlignedMemory memory, AlignedMemory::Allocate(bytes));
  leased_bytes_ += memory.held_bytes();
  return std::make_unique<Buffer>(Buffer{std::move(memory), size_class});
}

void StagingPool::Release(std::unique_ptr<Buffer> buffer) {
  MutexLock lock(&mutex_);
  const int64_t bytes = buffer->memory.held_bytes();
  leased_bytes_ -= bytes;
  if (pooled_bytes_ + bytes > max_pooled_bytes_) return;
  pooled_bytes_ += bytes;
  free_[buffer->size_class].push_back(std::move(buffer));
}

int64_t StagingPool::held_bytes() const {
  MutexLock lock(&mutex_);
  return leased_bytes_ + pooled_bytes_;
}

int64_t StagingPool::leased_bytes() const {
  MutexLock lock(&mutex_);
  return leased_bytes_;
}

}  // namespace qgemm
