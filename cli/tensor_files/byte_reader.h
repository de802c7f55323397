// SPDX-License-Identifier: Apache-2.0
//
// Reads little-endian values from untrusted bytes, in order, never past the
// end: bytes in memory, or those of a file, piece by piece.

#ifndef QGEMM_CLI_TENSOR_FILES_BYTE_READER_H_
#define QGEMM_CLI_TENSOR_FILES_BYTE_READER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace qgemm {

class ByteReader {
 public:
  // Fills `buffer` with a file's bytes from `offset` on.
  using ReadAt =
      std::function<absl::Status(int64_t offset, absl::Span<uint8_t> buffer)>;

  // Borrows `bytes`.
  explicit ByteReader(absl::Span<const uint8_t> bytes)
      : size_bytes_(static_cast<int64_t>(bytes.size())), window_(bytes) {}
  // Reads a file of `size_bytes`; the errors of `read_at` are its own.
  ByteReader(int64_t size_bytes, ReadAt read_at)
      : size_bytes_(size_bytes), read_at_(std::move(read_at)) {}
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;

  int64_t size_bytes() const { return size_bytes_; }
  int64_t position() const { return position_; }
  int64_t remaining() const { return size_bytes_ - position_; }

  // The next value; INVALID_ARGUMENT names `what` if the file ends before it.
  template <typename T>
  absl::StatusOr<T> Read(absl::string_view what) {
    ASSIGN_OR_RETURN(const absl::string_view bytes, ReadBytes(sizeof(T), what));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  // The next `size` bytes, borrowed until the next read. The caller bounds
  // `size`: a file's bytes are held in memory.
  absl::StatusOr<absl::string_view> ReadBytes(uint64_t size,
                                              absl::string_view what) {
    if (size > static_cast<uint64_t>(remaining())) {
      return EndsInside(what, size);
    }
    RETURN_IF_ERROR(MoveWindow(static_cast<int64_t>(size)));
    const absl::string_view view(reinterpret_cast<const char*>(window_.data()) +
                                     position_ - window_begin_,
                                 size);
    position_ += static_cast<int64_t>(size);
    return view;
  }

  // Passes over `size` bytes without reading them.
  absl::Status Skip(uint64_t size, absl::string_view what) {
    if (size > static_cast<uint64_t>(remaining())) {
      return EndsInside(what, size);
    }
    position_ += static_cast<int64_t>(size);
    return absl::OkStatus();
  }

 private:
  // Bytes of a file that are read at a time.
  static constexpr int64_t kWindowBytes = 64 << 10;

  // Makes the window hold the next `size` bytes, which the file has.
  absl::Status MoveWindow(int64_t size) {
    const int64_t window_end =
        window_begin_ + static_cast<int64_t>(window_.size());
    if (position_ >= window_begin_ && position_ + size <= window_end) {
      return absl::OkStatus();
    }
    held_.resize(std::min(std::max(size, kWindowBytes), remaining()));
    RETURN_IF_ERROR(read_at_(position_, absl::MakeSpan(held_)));
    window_ = held_;
    window_begin_ = position_;
    return absl::OkStatus();
  }

  absl::Status EndsInside(absl::string_view what, uint64_t size) const {
    return absl::InvalidArgumentError(absl::StrCat(
        what, " at byte ", position_, " takes ", size, " bytes, but only ",
        remaining(), " are left (is the file truncated?)"));
  }

  const int64_t size_bytes_;
  const ReadAt read_at_;
  int64_t position_ = 0;
  // The bytes at hand, from `window_begin_` on: all of them in memory, some of
  // a file's, which are in `held_`.
  absl::Span<const uint8_t> window_;
  int64_t window_begin_ = 0;
  std::vector<uint8_t> held_;
};

}  // namespace qgemm

#endif  // QGEMM_CLI_TENSOR_FILES_BYTE_READER_H_
