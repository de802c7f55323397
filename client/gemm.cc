// SPDX-License-Identifier: Apache-2.0

#include "client/gemm.h"

namespace qgemm {

std::optional<RequestPriority> ParsePriority(absl::string_view text) {
  if (text == "low") return RequestPriority::kLow;
  if (text == "normal") return RequestPriority::kNormal;
  if (text == "high") return RequestPriority::kHigh;
  return std::nullopt;
}

std::vector<float> GemmResult::ToFloats() const {
  const int64_t element_bytes = SizeOf(c_type);
  const auto* bytes = reinterpret_cast<const uint8_t*>(c.data());
  std::vector<float> values(c.size() / element_bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = LoadFloat(c_type, bytes + i * element_bytes);
  }
  return values;
}

}  // namespace qgemm
