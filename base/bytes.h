// SPDX-License-Identifier: Apache-2.0
//
// Little-endian fields of files and records, written to a string and read with
// every bound checked.

#ifndef QGEMM_BASE_BYTES_H_
#define QGEMM_BASE_BYTES_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"

namespace qgemm {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "fields are copied, so the host is little-endian");

// The type of the field is to be named: AppendInteger<uint32_t>(...).
template <typename Integer>
void AppendInteger(std::common_type_t<Integer> value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// The text's length, in 4 bytes, and the text.
inline void AppendText(absl::string_view text, std::string* bytes) {
  AppendInteger<uint32_t>(static_cast<uint32_t>(text.size()), bytes);
  bytes->append(text.data(), text.size());
}

// Reads fields one after the other. Past the end, and from then on, every field
// is zero or empty and ok() is false. Borrows the bytes.
class FieldReader {
 public:
  explicit FieldReader(absl::string_view bytes) : left_(bytes) {}

  template <typename Integer>
  Integer Read() {
    static_assert(std::is_integral_v<Integer>, "fields are integers or text");
    Integer value = 0;
    const absl::string_view bytes = ReadBytes(sizeof(value));
    if (ok_) std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }

  absl::string_view ReadBytes(uint64_t count) {
    if (count > left_.size()) {
      Fail();
      return {};
    }
    const absl::string_view bytes = left_.substr(0, count);
    left_.remove_prefix(count);
    return bytes;
  }

  // Text as AppendText writes it.
  std::string ReadText() { return std::string(ReadBytes(Read<uint32_t>())); }

  // For one who finds a field's value wrong.
  void Fail() {
    ok_ = false;
    left_ = {};
  }

  bool ok() const { return ok_; }
  // True if every byte was read, and none too many.
  bool at_end() const { return ok_ && left_.empty(); }

 private:
  absl::string_view left_;
  bool ok_ = true;
};

}  // namespace qgemm

#endif  // QGEMM_BASE_BYTES_H_
