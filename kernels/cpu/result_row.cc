// SPDX-License-Identifier: Apache-2.0
//
// In double up to the last rounding: factors may be powers of two beyond
// fp32's range.

#include "kernels/cpu/result_row.h"

#include <cstring>

namespace qgemm {

void StoreResults(const ResultRow& row, absl::Span<const float> sums,
                  uint8_t* c) {
  float results[kTileRows];
  const int64_t count = sums.size();
  for (int64_t i = 0; i < count; ++i) {
    const double bias = row.bias.empty() ? 0.0 : row.bias[i];
    results[i] = static_cast<float>(sums[i] * row.factor + bias);
  }
  switch (row.type) {
    case FloatType::kFloat32:
      std::memcpy(c, results, count * sizeof(float));
      return;
    case FloatType::kFloat16:
      row.half_conversions.to_half(results, count,
                                   reinterpret_cast<uint16_t*>(c));
      return;
    case FloatType::kBFloat16:
      for (int64_t i = 0; i < count; ++i) {
        StoreFloat(FloatType::kBFloat16, results[i], c + 2 * i);
      }
      return;
  }
}

}  // namespace qgemm
