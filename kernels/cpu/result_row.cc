// SPDX-License-Identifier: Apache-2.0
//
// In double up to the last rounding: factors may be powers of two beyond
// fp32's range.

#include "kernels/cpu/result_row.h"

#include <cstring>

#include "base/float16.h"

namespace qgemm {

namespace {

// All rows of a tile, also those that the layer ends before: loops of a fixed
// length compile to vectors.
void Finish(const ResultRow& row, absl::Span<const float> sums,
            float (&results)[kTileRows]) {
  float sum[kTileRows] = {};
  float bias[kTileRows] = {};
  std::memcpy(sum, sums.data(), sums.size() * sizeof(float));
  if (!row.bias.empty()) {
    std::memcpy(bias, row.bias.data(), row.bias.size() * sizeof(float));
  }
  const double factor = row.factor;
  for (int i = 0; i < kTileRows; ++i) {
    results[i] = static_cast<float>(sum[i] * factor + bias[i]);
  }
}

}  // namespace

void StoreResults(const ResultRow& row, absl::Span<const float> sums,
                  uint8_t* c) {
  float results[kTileRows];
  Finish(row, sums, results);
  const int64_t count = sums.size();
  switch (row.type) {
    case FloatType::kFloat32:
      std::memcpy(c, results, count * sizeof(float));
      return;
    case FloatType::kFloat16:
      row.half_conversions.to_half(results, count,
                                   reinterpret_cast<uint16_t*>(c));
      return;
    case FloatType::kBFloat16: {
      uint16_t rounded[kTileRows];
      for (int i = 0; i < kTileRows; ++i) {
        rounded[i] = FloatToBFloat16(results[i]);
      }
      std::memcpy(c, rounded, count * sizeof(uint16_t));
      return;
    }
  }
}

}  // namespace qgemm
