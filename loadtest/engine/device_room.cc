// SPDX-License-Identifier: Apache-2.0

#include "loadtest/engine/device_room.h"

#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "lane/segment.h"

namespace qgemm::loadtest {

absl::StatusOr<std::shared_ptr<DeviceRoom>> DeviceRoom::Make(int64_t bytes) {
  ASSIGN_OR_RETURN(std::unique_ptr<cuda::ClientMemory> memory,
                   cuda::ClientMemory::Allocate(bytes));
  return absl::WrapUnique(new DeviceRoom(std::move(memory)));
}

DeviceRoom::DeviceRoom(std::unique_ptr<cuda::ClientMemory> memory)
    : memory_(std::move(memory)),
      ranges_(static_cast<int64_t>(memory_->bytes().size()),
              lane::kOperandAlignment) {}

DeviceOperands DeviceRoom::operands() const {
  DeviceOperands operands;
  operands.data = memory_->bytes().data();
  operands.bytes = static_cast<int64_t>(memory_->bytes().size());
  operands.descriptor = memory_->descriptor();
  operands.device_uuid = memory_->device_uuid();
  return operands;
}

absl::StatusOr<OperandBuffer> DeviceRoom::Allocate(int64_t bytes) {
  std::optional<int64_t> offset;
  {
    MutexLock lock(&mutex_);
    offset = ranges_.Allocate(bytes);
  }
  if (!offset.has_value()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no room on the GPU for operands of ", bytes, " bytes"));
  }
  uint8_t* const data = memory_->bytes().data() + *offset;
  std::shared_ptr<void> owner(
      data, [room = shared_from_this(), offset = *offset, bytes](void*) {
        room->Free(offset, bytes);
      });
  return OperandBuffer(std::move(owner), absl::MakeSpan(data, bytes), true);
}

void DeviceRoom::Free(int64_t offset, int64_t bytes) {
  MutexLock lock(&mutex_);
  ranges_.Free(offset, bytes);
}

std::string DeviceRoom::ToHost(absl::string_view bytes) const {
  std::string copy(bytes.size(), '\0');
  CHECK_OK(memory_->CopyOut(
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()),
                          bytes.size()),
      reinterpret_cast<uint8_t*>(copy.data())));
  return copy;
}

}  // namespace qgemm::loadtest
