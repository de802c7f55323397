// SPDX-License-Identifier: Apache-2.0
//
// Buffers and a stream for an upload, kept for the next one: allocating pinned
// and device memory takes milliseconds, and freeing device memory waits for
// every batch that runs.

#ifndef QGEMM_KERNELS_CUDA_UPLOAD_CONTEXT_H_
#define QGEMM_KERNELS_CUDA_UPLOAD_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/cuda/runtime/stream.h"

namespace qgemm::cuda {

// Bytes on their way: large enough that a copy runs at the bus's rate.
inline constexpr int64_t kUploadSlotBytes = int64_t{4} << 20;

struct UploadSlot {
  PinnedBuffer host;    // kUploadSlotBytes
  DeviceBuffer device;  // as much
  Event done;           // the stream has passed what the slot held
};

// Used by one upload at a time.
struct UploadContext {
  Stream stream;
  std::vector<UploadSlot> slots;
  // Room for one value that the device computes of a layer.
  DeviceBuffer device_value;
  PinnedBuffer host_value;
};

// One on the calling thread's current device. Errors: RESOURCE_EXHAUSTED.
absl::StatusOr<std::unique_ptr<UploadContext>> NewUploadContext(int slots);

// The checksum of device memory (base/memory_checksum.h) once the stream has
// done what it has by now. Waits for it. Errors: the device's.
absl::StatusOr<uint64_t> ChecksumOf(const UploadContext& context,
                                    const uint8_t* data, int64_t size_bytes);

// Thread-safe.
class UploadContextPool {
 public:
  // Contexts of the GPU `device_index`.
  explicit UploadContextPool(int device_index) : device_index_(device_index) {}
  UploadContextPool(const UploadContextPool&) = delete;
  UploadContextPool& operator=(const UploadContextPool&) = delete;

  // One that was given back, or a new one. Errors: RESOURCE_EXHAUSTED.
  absl::StatusOr<std::unique_ptr<UploadContext>> Take();

  // The context's stream has nothing left to do.
  void GiveBack(std::unique_ptr<UploadContext> context);

 private:
  const int device_index_;
  Mutex mutex_;
  std::vector<std::unique_ptr<UploadContext>> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_UPLOAD_CONTEXT_H_
