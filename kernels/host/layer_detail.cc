// SPDX-License-Identifier: Apache-2.0
//
// Every field is one integer.

#include "kernels/host/layer_detail.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace qgemm {
namespace {

// More than `most` makes the reader fail.
uint8_t ReadUpTo(int most, FieldReader* reader) {
  const uint8_t value = reader->Read<uint8_t>();
  if (value <= most) return value;
  reader->Fail();
  return 0;
}

}  // namespace

void AppendFlag(bool flag, std::string* bytes) {
  AppendInteger<uint8_t>(flag ? 1 : 0, bytes);
}

bool ReadFlag(FieldReader* reader) { return ReadUpTo(1, reader) == 1; }

void AppendShape(const WeightsShape& shape, std::string* bytes) {
  AppendInteger<int64_t>(shape.n, bytes);
  AppendInteger<int64_t>(shape.k, bytes);
  AppendInteger<int64_t>(shape.group_size, bytes);
  AppendInteger<int32_t>(shape.bits, bytes);
  AppendInteger<uint8_t>(static_cast<uint8_t>(shape.scale_type), bytes);
  AppendInteger<uint8_t>(static_cast<uint8_t>(shape.dense_type), bytes);
  for (const bool flag :
       {shape.dense, shape.has_bias, shape.has_zeros, shape.has_permutation,
        shape.integer_codes, shape.supports_a8, shape.ternary_codes}) {
    AppendFlag(flag, bytes);
  }
}

WeightsShape ReadShape(FieldReader* reader) {
  WeightsShape shape;
  shape.n = reader->Read<int64_t>();
  shape.k = reader->Read<int64_t>();
  shape.group_size = reader->Read<int64_t>();
  shape.bits = reader->Read<int32_t>();
  shape.scale_type = static_cast<ScaleType>(
      ReadUpTo(static_cast<int>(ScaleType::kFloat32), reader));
  shape.dense_type = static_cast<FloatType>(
      ReadUpTo(static_cast<int>(FloatType::kBFloat16), reader));
  for (bool* const flag :
       {&shape.dense, &shape.has_bias, &shape.has_zeros, &shape.has_permutation,
        &shape.integer_codes, &shape.supports_a8, &shape.ternary_codes}) {
    *flag = ReadFlag(reader);
  }
  return shape;
}

absl::Status CheckPart(int64_t offset_bytes, int64_t size_bytes,
                       int64_t image_bytes) {
  if (offset_bytes >= 0 && offset_bytes <= image_bytes &&
      size_bytes <= image_bytes - offset_bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("image of ", image_bytes,
                                                 " bytes has no ", size_bytes,
                                                 " at ", offset_bytes));
}

}  // namespace qgemm
