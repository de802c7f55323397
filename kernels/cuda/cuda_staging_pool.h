// SPDX-License-Identifier: Apache-2.0
//
// Recycles page-locked operand buffers by size class, so that requests of a
// steady state lock no pages.

#ifndef QGEMM_KERNELS_CUDA_CUDA_STAGING_POOL_H_
#define QGEMM_KERNELS_CUDA_CUDA_STAGING_POOL_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kernels/cuda/runtime/pinned_buffer.h"
#include "kernels/matrix/backend.h"

namespace qgemm::cuda {

struct CudaStagingLimits {
  int64_t max_pooled_bytes = 0;  // kept although nobody leases them
  int64_t max_bytes = 0;         // leased in all
};

// Thread-safe. Outlives its leases.
class CudaStagingPool {
 public:
  // Buffers of the GPU `device`.
  CudaStagingPool(int device, const CudaStagingLimits& limits)
      : device_(device), limits_(limits) {}
  CudaStagingPool(const CudaStagingPool&) = delete;
  CudaStagingPool& operator=(const CudaStagingPool&) = delete;

  // At least `size_bytes`, aligned to 256. RESOURCE_EXHAUSTED.
  absl::StatusOr<StagingLease> Acquire(int64_t size_bytes);

  // Leased and pooled.
  int64_t held_bytes() const;
  int64_t leased_bytes() const;

 private:
  // Powers of two and the halves between them, from 4 KiB to 12 TiB.
  static constexpr int kClasses = 64;

  struct Buffer {
    PinnedBuffer memory;
    int size_class;
  };

  absl::StatusOr<std::unique_ptr<Buffer>> Take(int size_class);
  // Null if there is none. Counts the buffer as leased either way.
  absl::StatusOr<std::unique_ptr<Buffer>> TakePooled(int size_class);
  void Release(std::unique_ptr<Buffer> buffer);

  const int device_;
  const CudaStagingLimits limits_;
  mutable Mutex mutex_;
  std::array<std::vector<std::unique_ptr<Buffer>>, kClasses> free_
      ABSL_GUARDED_BY(mutex_);
  int64_t pooled_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t leased_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_CUDA_STAGING_POOL_H_
