// SPDX-License-Identifier: Apache-2.0
//
// A layer's shape among the bytes of LayerImage::detail, which backends write
// and read field by field (base/bytes.h).

#ifndef QGEMM_KERNELS_HOST_LAYER_DETAIL_H_
#define QGEMM_KERNELS_HOST_LAYER_DETAIL_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "base/bytes.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

void AppendShape(const WeightsShape& shape, std::string* bytes);

// Anything if the reader is not ok() afterwards. A value that no enum has, or a
// bool that is neither 0 nor 1, makes it so.
WeightsShape ReadShape(FieldReader* reader);

void AppendFlag(bool flag, std::string* bytes);
// A byte that is neither 0 nor 1 makes the reader fail.
bool ReadFlag(FieldReader* reader);

// INVALID_ARGUMENT unless that part lies within an image of `image_bytes`.
absl::Status CheckPart(int64_t offset_bytes, int64_t size_bytes,
                       int64_t image_bytes);

// An object's bytes: floats, and arrays of them.
template <typename T>
void AppendBytesOf(const T& value, std::string* bytes) {
  static_assert(std::is_trivially_copyable_v<T>, "the bytes are the value");
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Zeros past the end.
template <typename T>
T ReadBytesOf(FieldReader* reader) {
  static_assert(std::is_trivially_copyable_v<T>, "the bytes are the value");
  T value = {};
  const absl::string_view bytes = reader->ReadBytes(sizeof(value));
  if (reader->ok()) std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

}  // namespace qgemm

#endif  // QGEMM_KERNELS_HOST_LAYER_DETAIL_H_
