// SPDX-License-Identifier: Apache-2.0
//
// Contexts are made and destroyed outside the mutex: either takes milliseconds.

#include "kernels/cuda/upload_context.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "kernels/cuda/launch/checksum.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/device.h"

namespace qgemm::cuda {
namespace {

// One is filled while two are on their way.
constexpr int kSlots = 3;
// The default number of a server's uploads at one time.
constexpr size_t kMaxFreeContexts = 4;
constexpr int64_t kValueBytes = 256;

}  // namespace

absl::StatusOr<std::unique_ptr<UploadContext>> NewUploadContext(int slots) {
  auto context = std::make_unique<UploadContext>();
  ASSIGN_OR_RETURN(context->stream, Stream::Create());
  for (int i = 0; i < slots; ++i) {
    UploadSlot slot;
    ASSIGN_OR_RETURN(slot.host, PinnedBuffer::Allocate(kUploadSlotBytes));
    ASSIGN_OR_RETURN(slot.device, DeviceBuffer::Allocate(kUploadSlotBytes));
    ASSIGN_OR_RETURN(slot.done, Event::Create(EventKind::kOrdering));
    context->slots.push_back(std::move(slot));
  }
  ASSIGN_OR_RETURN(context->device_value, DeviceBuffer::Allocate(kValueBytes));
  ASSIGN_OR_RETURN(context->host_value, PinnedBuffer::Allocate(kValueBytes));
  return context;
}

absl::StatusOr<uint64_t> ChecksumOf(const UploadContext& context,
                                    const uint8_t* data, int64_t size_bytes) {
  const cudaStream_t stream = context.stream.get();
  auto* const sum = reinterpret_cast<uint64_t*>(context.device_value.data());
  RETURN_IF_ERROR(ToStatus(LaunchChecksum(data, size_bytes, sum, stream),
                           "sum a layer's bytes up"));
  RETURN_IF_ERROR(
      ToStatus(cudaMemcpyAsync(context.host_value.data(), sum, sizeof(*sum),
                               cudaMemcpyDeviceToHost, stream),
               "copy a layer's checksum"));
  RETURN_IF_ERROR(context.stream.Synchronize());
  uint64_t checksum = 0;
  std::memcpy(&checksum, context.host_value.data(), sizeof(checksum));
  return checksum;
}

absl::StatusOr<std::unique_ptr<UploadContext>> UploadContextPool::Take() {
  RETURN_IF_ERROR(SetCurrentDevice(device_index_));
  {
    MutexLock lock(&mutex_);
    if (!free_.empty()) {
      std::unique_ptr<UploadContext> context = std::move(free_.back());
      free_.pop_back();
      return context;
    }
  }
  return NewUploadContext(kSlots);
}

void UploadContextPool::GiveBack(std::unique_ptr<UploadContext> context) {
  MutexLock lock(&mutex_);
  if (free_.size() < kMaxFreeContexts) free_.push_back(std::move(context));
  // A surplus context is destroyed after the lock is released.
}

}  // namespace qgemm::cuda
