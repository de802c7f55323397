// SPDX-License-Identifier: Apache-2.0
//
// The values of qgemm/gemm.h and qgemm/float_types.h; no gRPC.

#include "qgemm/gemm.h"

namespace qgemm {
namespace {

template <typename T>
T Rounded(FloatType type, float value) {
  T element;
  StoreFloat(type, value, reinterpret_cast<uint8_t*>(&element.bits));
  return element;
}

float Widened(FloatType type, const uint16_t& bits) {
  return LoadFloat(type, reinterpret_cast<const uint8_t*>(&bits));
}

template <typename T>
void SetOperand(absl::Span<const T> values, FloatType type,
                GemmRequest* request) {
  request->a =
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values.data()),
                          values.size() * sizeof(T));
  request->a_type = type;
}

template <typename T>
void SetResult(absl::Span<T> values, FloatType type, GemmRequest* request) {
  request->c = absl::MakeSpan(reinterpret_cast<uint8_t*>(values.data()),
                              values.size() * sizeof(T));
  request->c_type = type;
}

}  // namespace

std::optional<RequestPriority> ParsePriority(absl::string_view text) {
  if (text == "low") return RequestPriority::kLow;
  if (text == "normal") return RequestPriority::kNormal;
  if (text == "high") return RequestPriority::kHigh;
  return std::nullopt;
}

Half::Half(float value) : Half(Rounded<Half>(FloatType::kFloat16, value)) {}

Half::operator float() const { return Widened(FloatType::kFloat16, bits); }

BFloat16::BFloat16(float value)
    : BFloat16(Rounded<BFloat16>(FloatType::kBFloat16, value)) {}

BFloat16::operator float() const { return Widened(FloatType::kBFloat16, bits); }

void GemmRequest::SetA(absl::Span<const float> values) {
  SetOperand(values, FloatType::kFloat32, this);
}

void GemmRequest::SetA(absl::Span<const Half> values) {
  SetOperand(values, FloatType::kFloat16, this);
}

void GemmRequest::SetA(absl::Span<const BFloat16> values) {
  SetOperand(values, FloatType::kBFloat16, this);
}

void GemmRequest::SetC(absl::Span<float> values) {
  SetResult(values, FloatType::kFloat32, this);
}

void GemmRequest::SetC(absl::Span<Half> values) {
  SetResult(values, FloatType::kFloat16, this);
}

void GemmRequest::SetC(absl::Span<BFloat16> values) {
  SetResult(values, FloatType::kBFloat16, this);
}

absl::Span<const uint8_t> GemmResult::bytes() const {
  if (!placed_c.empty()) return placed_c;
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(c.data()),
                             c.size());
}

std::vector<float> GemmResult::ToFloats() const {
  const absl::Span<const uint8_t> elements = bytes();
  const int64_t element_bytes = SizeOf(c_type);
  std::vector<float> values(elements.size() / element_bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = LoadFloat(c_type, elements.data() + i * element_bytes);
  }
  return values;
}

}  // namespace qgemm
