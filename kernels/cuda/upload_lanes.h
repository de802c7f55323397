// SPDX-License-Identifier: Apache-2.0
//
// What an upload works with beside its layer's own memory, kept for the next
// one: to lock pages and to take device memory costs milliseconds, and giving
// device memory back waits for every batch that runs.

#ifndef QGEMM_KERNELS_CUDA_UPLOAD_LANES_H_
#define QGEMM_KERNELS_CUDA_UPLOAD_LANES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kernels/cuda/runtime/device_buffer.h"
#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/pinned_buffer.h"
#include "kernels/cuda/runtime/stream.h"

namespace qgemm::cuda {

// Bytes on their way: large enough that a copy runs at the bus's rate.
inline constexpr int64_t kUploadSlotBytes = int64_t{4} << 20;

struct UploadSlot {
  PinnedBuffer host;    // kUploadSlotBytes
  DeviceBuffer device;  // as much
  Event done;           // the stream has passed what the slot held
};

// One upload's at a time.
struct UploadLane {
  Stream stream;
  std::vector<UploadSlot> slots;
  // Room for one value that the device computes of a layer.
  DeviceBuffer device_value;
  PinnedBuffer host_value;
};

// Thread-safe.
class UploadLanePool {
 public:
  // Lanes of the GPU `device_index`.
  explicit UploadLanePool(int device_index) : device_index_(device_index) {}
  UploadLanePool(const UploadLanePool&) = delete;
  UploadLanePool& operator=(const UploadLanePool&) = delete;

  // One that was given back, or a new one. Errors: RESOURCE_EXHAUSTED.
  absl::StatusOr<std::unique_ptr<UploadLane>> Take();

  // The lane's stream has nothing left to do.
  void GiveBack(std::unique_ptr<UploadLane> lane);

 private:
  const int device_index_;
  Mutex mutex_;
  std::vector<std::unique_ptr<UploadLane>> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_UPLOAD_LANES_H_
