// SPDX-License-Identifier: Apache-2.0
//
// Recycles operand buffers by size class, so that requests of a steady state
// take no memory from the system.

#ifndef QGEMM_KERNELS_CPU_STAGING_POOL_H_
#define QGEMM_KERNELS_CPU_STAGING_POOL_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kernels/cpu/aligned_memory.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

// Thread-safe. Outlives its leases.
class StagingPool {
 public:
  // Keeps at most `max_pooled_bytes` of buffers that nobody leases, and
  // leases at most `max_bytes` in all.
  StagingPool(int64_t max_pooled_bytes, int64_t max_bytes)
      : max_pooled_bytes_(max_pooled_bytes), max_bytes_(max_bytes) {}
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // At least `size_bytes`, aligned to 64. RESOURCE_EXHAUSTED.
  absl::StatusOr<StagingLease> Acquire(int64_t size_bytes);

  // Leased and pooled.
  int64_t held_bytes() const;
  int64_t leased_bytes() const;

 private:
  // Powers of two and the halves between them, from 4 KiB to 16 TiB.
  static constexpr int kClasses = 64;

  struct Buffer {
    AlignedMemory memory;
    int size_class;
  };

  absl::StatusOr<std::unique_ptr<Buffer>> Take(int size_class);
  void Release(std::unique_ptr<Buffer> buffer);

  const int64_t max_pooled_bytes_;
  const int64_t max_bytes_;
  mutable Mutex mutex_;
  std::array<std::vector<std::unique_ptr<Buffer>>, kClasses> free_
      ABSL_GUARDED_BY(mutex_);
  int64_t pooled_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t leased_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_CPU_STAGING_POOL_H_
