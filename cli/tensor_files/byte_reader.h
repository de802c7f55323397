// SPDX-License-Identifier: Apache-2.0
//
// Reads little-endian values from untrusted bytes, in order, never past the
// end.

#ifndef QGEMM_CLI_TENSOR_FILES_BYTE_READER_H_
#define QGEMM_CLI_TENSOR_FILES_BYTE_READER_H_

#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace qgemm {

class ByteReader {
 public:
  // Borrows `bytes`.
  explicit ByteReader(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}

  int64_t position() const { return position_; }
  int64_t remaining() const {
    return static_cast<int64_t>(bytes_.size()) - position_;
  }

  // The next value; INVALID_ARGUMENT names `what` if the file ends before it.
  template <typename T>
  absl::StatusOr<T> Read(absl::string_view what) {
    if (remaining() < static_cast<int64_t>(sizeof(T))) {
      return EndsInside(what, sizeof(T));
    }
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  // The next `size` bytes, borrowed.
  absl::StatusOr<absl::string_view> ReadBytes(uint64_t size,
                                              absl::string_view what) {
    if (size > static_cast<uint64_t>(remaining())) {
      return EndsInside(what, size);
    }
    const absl::string_view view(
        reinterpret_cast<const char*>(bytes_.data()) + position_, size);
    position_ += static_cast<int64_t>(size);
    return view;
  }

 private:
  absl::Status EndsInside(absl::string_view what, uint64_t size) const {
    return absl::InvalidArgumentError(absl::StrCat(
        what, " at byte ", position_, " takes ", size, " bytes, but only ",
        remaining(), " are left (is the file truncated?)"));
  }

  const absl::Span<const uint8_t> bytes_;
  int64_t position_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_CLI_TENSOR_FILES_BYTE_READER_H_
