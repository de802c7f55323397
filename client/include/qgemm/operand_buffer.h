// SPDX-License-Identifier: Apache-2.0
//
// Memory for operands that a lane's server reads and writes in place.

#ifndef QGEMM_CLIENT_INCLUDE_QGEMM_OPERAND_BUFFER_H_
#define QGEMM_CLIENT_INCLUDE_QGEMM_OPERAND_BUFFER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/types/span.h"

namespace qgemm {

// Bytes that Client::AllocateOperands gave, aligned to 64, and given back on
// destruction. Requests whose A, C, inputs or outputs begin in it at a multiple
// of 64 bytes are not copied by the lane that it belongs to; to all other calls
// it is memory like any other, as it is once that lane has ended.
//
// It may outlive its client. It must not be destroyed, nor its bytes changed,
// while a call uses them. Bytes are zero or left by an earlier buffer. A child
// of fork() does not have them. Move-only; its bytes do not move with it.
class OperandBuffer {
 public:
  OperandBuffer() = default;  // no bytes
  // For the library alone: `owner` holds `bytes`.
  OperandBuffer(std::shared_ptr<void> owner, absl::Span<uint8_t> bytes,
                bool is_in_lane)
      : owner_(std::move(owner)), bytes_(bytes), is_in_lane_(is_in_lane) {}
  OperandBuffer(OperandBuffer&& other) noexcept { *this = std::move(other); }
  OperandBuffer& operator=(OperandBuffer&& other) noexcept {
    owner_ = std::move(other.owner_);
    bytes_ = std::exchange(other.bytes_, {});
    is_in_lane_ = std::exchange(other.is_in_lane_, false);
    return *this;
  }

  absl::Span<uint8_t> bytes() const { return bytes_; }

  // The bytes as whole elements, of float, Half, BFloat16 or int32_t.
  template <typename T>
  absl::Span<T> As() const {
    static_assert(sizeof(T) <= 4, "operands have elements of 2 or 4 bytes");
    return absl::MakeSpan(reinterpret_cast<T*>(bytes_.data()),
                          bytes_.size() / sizeof(T));
  }

  // False: plain memory, as there was no lane, or no room in it.
  bool is_in_lane() const { return is_in_lane_; }

 private:
  std::shared_ptr<void> owner_;
  absl::Span<uint8_t> bytes_;
  bool is_in_lane_ = false;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_INCLUDE_QGEMM_OPERAND_BUFFER_H_
