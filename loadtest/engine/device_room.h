// SPDX-License-Identifier: Apache-2.0
//
// Memory of a GPU for the operands of a lane, divided among requests, as a
// frontend has it that computes on the server's GPU.

#ifndef QGEMM_LOADTEST_ENGINE_DEVICE_ROOM_H_
#define QGEMM_LOADTEST_ENGINE_DEVICE_ROOM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/lane_segment.h"
#include "kernels/cuda/runtime/client_memory.h"
#include "qgemm/client_options.h"
#include "qgemm/operand_buffer.h"

namespace qgemm::loadtest {

// Thread-safe.
class DeviceRoom : public std::enable_shared_from_this<DeviceRoom> {
 public:
  // Errors: those of ClientMemory::Allocate.
  static absl::StatusOr<std::shared_ptr<DeviceRoom>> Make(int64_t bytes);

  // For the client, which must not outlive this.
  DeviceOperands operands() const;

  // Bytes of the GPU, which keep the room. Errors: RESOURCE_EXHAUSTED.
  absl::StatusOr<OperandBuffer> Allocate(int64_t bytes);

  absl::Status CopyIn(absl::Span<const uint8_t> from, uint8_t* to) {
    return memory_->CopyIn(from, to);
  }
  // A copy on the host of what lies here.
  std::string ToHost(absl::string_view bytes) const;

 private:
  explicit DeviceRoom(std::unique_ptr<cuda::ClientMemory> memory);
  void Free(int64_t offset, int64_t bytes);

  const std::unique_ptr<cuda::ClientMemory> memory_;
  Mutex mutex_;
  RangeAllocator ranges_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_ENGINE_DEVICE_ROOM_H_
