// SPDX-License-Identifier: Apache-2.0
//
// Lanes are made and dropped outside the mutex: either takes milliseconds.

#include "kernels/cuda/upload_lanes.h"

#include <utility>

#include "base/status_macros.h"
#include "kernels/cuda/runtime/device_info.h"

namespace qgemm::cuda {
namespace {

// One is filled while two are on their way.
constexpr int kSlots = 3;
// As many as a server's uploads at one time, unless it is told otherwise.
constexpr size_t kMaxFreeLanes = 4;
constexpr int64_t kValueBytes = 256;

absl::StatusOr<std::unique_ptr<UploadLane>> NewLane() {
  auto lane = std::make_unique<UploadLane>();
  ASSIGN_OR_RETURN(lane->stream, Stream::Create());
  for (int i = 0; i < kSlots; ++i) {
    UploadSlot slot;
    ASSIGN_OR_RETURN(slot.host, PinnedBuffer::Allocate(kUploadSlotBytes));
    ASSIGN_OR_RETURN(slot.device, DeviceBuffer::Allocate(kUploadSlotBytes));
    ASSIGN_OR_RETURN(slot.done, Event::Create(EventKind::kOrdering));
    lane->slots.push_back(std::move(slot));
  }
  ASSIGN_OR_RETURN(lane->device_value, DeviceBuffer::Allocate(kValueBytes));
  ASSIGN_OR_RETURN(lane->host_value, PinnedBuffer::Allocate(kValueBytes));
  return lane;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UploadLane>> UploadLanePool::Take() {
  RETURN_IF_ERROR(SetCurrentDevice(device_index_));
  {
    MutexLock lock(&mutex_);
    if (!free_.empty()) {
      std::unique_ptr<UploadLane> lane = std::move(free_.back());
      free_.pop_back();
      return lane;
    }
  }
  return NewLane();
}

void UploadLanePool::GiveBack(std::unique_ptr<UploadLane> lane) {
  MutexLock lock(&mutex_);
  if (free_.size() < kMaxFreeLanes) free_.push_back(std::move(lane));
  // One too many goes with its parameter, after the lock.
}

}  // namespace qgemm::cuda
