// SPDX-License-Identifier: Apache-2.0
//
// Layers of one GPU in memory that outlives the process: chunks of the driver's
// virtual memory management, each exported as a file descriptor.

#ifndef QGEMM_KERNELS_CUDA_CUDA_KEPT_MEMORY_H_
#define QGEMM_KERNELS_CUDA_CUDA_KEPT_MEMORY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "kernels/cuda/layout/device_traits.h"
#include "kernels/cuda/upload_context.h"
#include "kernels/host/weights_arena.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/kept_memory.h"

namespace qgemm::cuda {

// The GPU, and bounds of the layers that are inherited.
struct CudaKeptOptions {
  int device_index = 0;
  DeviceTraits device;
  BackendLimits limits;
  std::shared_ptr<ByteBudget> weights;  // of all layers together
};

// Thread-safe.
class CudaKeptMemory final : public KeptMemory {
 public:
  // The calling thread's current device is the GPU. Errors: UNIMPLEMENTED (a
  // driver without such memory), RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<CudaKeptMemory>> Create(
      CudaKeptOptions options);

  KeptDevice device() const override { return device_; }
  std::optional<KeptLayer> PlaceOf(
      const ResidentWeights& weights) const override;
  void Watch(ChunkWatcher* watcher) override { arena_->Watch(watcher); }
  absl::Status Adopt(uint32_t chunk, int64_t size_bytes,
                     FileDescriptor descriptor) override;
  absl::StatusOr<std::shared_ptr<const ResidentWeights>> Inherit(
      const KeptLayer& layer) override;
  void EndAdoption() override { arena_->EndAdoption(); }

  WeightsArena* arena() { return arena_.get(); }
  int64_t adopted_bytes() const { return arena_->adopted_bytes(); }

  // The checksum of device memory that nothing writes; waits for the GPU.
  // Errors: the GPU's.
  absl::StatusOr<uint64_t> Checksum(const uint8_t* data, int64_t size_bytes)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  CudaKeptMemory(CudaKeptOptions options, KeptDevice device);

  const CudaKeptOptions options_;
  const KeptDevice device_;
  const std::shared_ptr<WeightsArena> arena_;
  Mutex mutex_;  // one checksum at a time
  std::unique_ptr<UploadContext> context_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_CUDA_KEPT_MEMORY_H_
