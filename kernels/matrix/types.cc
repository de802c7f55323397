// SPDX-License-Identifier: Apache-2.0
//
// Names and conversions of the scalar types.

#include "kernels/matrix/types.h"

#include <cstring>

#include "base/float16.h"

namespace qgemm {
namespace {

template <typename T>
T LoadAs(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

template <typename T>
void StoreAs(T value, uint8_t* bytes) {
  std::memcpy(bytes, &value, sizeof(value));
}

}  // namespace

absl::string_view Name(FloatType type) {
  switch (type) {
    case FloatType::kFloat32:
      return "fp32";
    case FloatType::kFloat16:
      return "fp16";
    case FloatType::kBFloat16:
      return "bf16";
  }
  return "?";
}

absl::string_view Name(ScaleType type) {
  switch (type) {
    case ScaleType::kE4m4:
      return "e4m4";
    case ScaleType::kFloat16:
      return "fp16";
    case ScaleType::kBFloat16:
      return "bf16";
    case ScaleType::kFloat32:
      return "fp32";
  }
  return "?";
}

absl::string_view Name(ComputeMode mode) {
  switch (mode) {
    case ComputeMode::kA16:
      return "A16";
    case ComputeMode::kA8:
      return "A8";
    case ComputeMode::kA32:
      return "A32";
  }
  return "?";
}

float LoadFloat(FloatType type, const uint8_t* bytes) {
  switch (type) {
    case FloatType::kFloat32:
      return LoadAs<float>(bytes);
    case FloatType::kFloat16:
      return Float16ToFloat(LoadAs<uint16_t>(bytes));
    case FloatType::kBFloat16:
      return BFloat16ToFloat(LoadAs<uint16_t>(bytes));
  }
  return 0;
}

float LoadScale(ScaleType type, const uint8_t* bytes) {
  switch (type) {
    case ScaleType::kE4m4:
      return E4m4ToFloat(*bytes);
    case ScaleType::kFloat16:
      return LoadFloat(FloatType::kFloat16, bytes);
    case ScaleType::kBFloat16:
      return LoadFloat(FloatType::kBFloat16, bytes);
    case ScaleType::kFloat32:
      return LoadFloat(FloatType::kFloat32, bytes);
  }
  return 0;
}

void StoreFloat(FloatType type, float value, uint8_t* bytes) {
  switch (type) {
    case FloatType::kFloat32:
      return StoreAs(value, bytes);
    case FloatType::kFloat16:
      return StoreAs(FloatToFloat16(value), bytes);
    case FloatType::kBFloat16:
      return StoreAs(FloatToBFloat16(value), bytes);
  }
}

float RoundTo(FloatType type, float value) {
  switch (type) {
    case FloatType::kFloat32:
      return value;
    case FloatType::kFloat16:
      return Float16ToFloat(FloatToFloat16(value));
    case FloatType::kBFloat16:
      return BFloat16ToFloat(FloatToBFloat16(value));
  }
  return value;
}

float E4m4ToFloat(uint8_t code) {
  // The code's bits below a float exponent are the value times 2^-116.
  return FloatFromBits(static_cast<uint32_t>(code) << 19) * 0x1p116f;
}

}  // namespace qgemm
