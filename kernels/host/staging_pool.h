// SPDX-License-Identifier: Apache-2.0
//
// Recycles operand buffers by size class, so that requests of a steady state
// take no memory from the system.

#ifndef QGEMM_KERNELS_HOST_STAGING_POOL_H_
#define QGEMM_KERNELS_HOST_STAGING_POOL_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

struct StagingLimits {
  int64_t max_pooled_bytes = 0;  // kept although nobody leases them
  int64_t max_bytes = 0;         // leased in all
};

// Memory is a movable owner of one buffer with uint8_t* data(), aligned to at
// least 64 bytes; destroying it frees the buffer. Buffers are allocated and
// freed outside the lock, since either may take milliseconds (pinned memory).
// Thread-safe. Outlives its leases.
template <typename Memory>
class StagingPool {
 public:
  using Allocate = std::function<absl::StatusOr<Memory>(int64_t bytes)>;

  StagingPool(const StagingLimits& limits, Allocate allocate)
      : limits_(limits), allocate_(std::move(allocate)) {}
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // At least `size_bytes` of undefined contents. RESOURCE_EXHAUSTED beyond
  // the limits, or an error of `allocate`.
  absl::StatusOr<StagingLease> Acquire(int64_t size_bytes);

  // Leased and pooled.
  int64_t held_bytes() const {
    MutexLock lock(&mutex_);
    return leased_bytes_ + pooled_bytes_;
  }
  int64_t leased_bytes() const {
    MutexLock lock(&mutex_);
    return leased_bytes_;
  }

 private:
  // Powers of two and the midpoints between them, from 4 KiB to 12 TiB.
  static constexpr int kClasses = 64;
  static constexpr int64_t kSmallestBytes = 4096;

  struct Buffer {
    Memory memory;
    int size_class;
  };

  // Class 2i holds 4096 << i bytes, class 2i + 1 half as much again.
  static int64_t ClassBytes(int size_class) {
    const int64_t base = kSmallestBytes << (size_class / 2);
    return size_class % 2 == 0 ? base : base + base / 2;
  }

  absl::StatusOr<std::unique_ptr<Buffer>> Take(int size_class);
  // Counts a buffer as leased; it is null if the pool has none to give.
  absl::StatusOr<std::unique_ptr<Buffer>> TakePooled(int size_class);
  void Release(std::unique_ptr<Buffer> buffer);

  const StagingLimits limits_;
  const Allocate allocate_;
  mutable Mutex mutex_;
  std::array<std::vector<std::unique_ptr<Buffer>>, kClasses> free_
      ABSL_GUARDED_BY(mutex_);
  int64_t pooled_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t leased_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

template <typename Memory>
absl::StatusOr<StagingLease> StagingPool<Memory>::Acquire(int64_t size_bytes) {
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

template <typename Memory>
absl::StatusOr<std::unique_ptr<typename StagingPool<Memory>::Buffer>>
StagingPool<Memory>::Take(int size_class) {
  ASSIGN_OR_RETURN(std::unique_ptr<Buffer> pooled, TakePooled(size_class));
  if (pooled != nullptr) return pooled;
  const int64_t bytes = ClassBytes(size_class);
  absl::StatusOr<Memory> memory = allocate_(bytes);
  if (memory.ok()) {
    return std::make_unique<Buffer>(Buffer{*std::move(memory), size_class});
  }
  MutexLock lock(&mutex_);
  leased_bytes_ -= bytes;
  return memory.status();
}

template <typename Memory>
absl::StatusOr<std::unique_ptr<typename StagingPool<Memory>::Buffer>>
StagingPool<Memory>::TakePooled(int size_class) {
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

template <typename Memory>
void StagingPool<Memory>::Release(std::unique_ptr<Buffer> buffer) {
  const int64_t bytes = ClassBytes(buffer->size_class);
  MutexLock lock(&mutex_);
  leased_bytes_ -= bytes;
  if (pooled_bytes_ + bytes > limits_.max_pooled_bytes) return;
  pooled_bytes_ += bytes;
  free_[buffer->size_class].push_back(std::move(buffer));
}

}  // namespace qgemm

#endif  // QGEMM_KERNELS_HOST_STAGING_POOL_H_
