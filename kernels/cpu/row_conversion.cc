// SPDX-License-Identifier: Apache-2.0
//
// Conversion, rounding, gathering and quantization of a row. Results are
// finished in double up to their last rounding: factors may be powers of two
// beyond fp32's range.

#include "kernels/cpu/row_conversion.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/float16.h"

namespace qgemm::cpu {
namespace {

// Rows with a finite magnitude of at least this are divided by kRowUnit. Then
// no sum of 2^20 products with weights below 2^5, as whole numbers are, passes
// 2^89 before its scale, nor 2^101 where a microkernel sums 4096 times them;
// nor 2^121 with scales up to 2^32.
constexpr float kLargeRow = 0x1p64f;
constexpr double kRowUnit = 0x1p64;
// Rows with all magnitudes below this are multiplied by kRowUnit. Then the tile
// unit, which flushes subnormals, loses at most 2^-86 of the row's largest
// element.
constexpr float kSmallRow = 0x1p-40f;

void RoundRow(const RowSource& source, float* row) {
  if (source.signature.rounding == FloatType::kBFloat16) {
    for (int64_t i = 0; i < source.k; ++i) {
      row[i] = BFloat16ToFloat(FloatToBFloat16(row[i]));
    }
    return;
  }
  constexpr int64_t kStep = 256;
  uint16_t halves[kStep];
  for (int64_t i = 0; i < source.k; i += kStep) {
    const int64_t count = std::min(kStep, source.k - i);
    source.half_conversions.to_half(row + i, count, halves);
    source.half_conversions.from_half(halves, count, row + i);
  }
}

void ConvertRow(const RowSource& source, const uint8_t* row, float* target) {
  const MatmulSignature& signature = source.signature;
  switch (signature.a_type) {
    case FloatType::kFloat16:
      source.half_conversions.from_half(reinterpret_cast<const uint16_t*>(row),
                                        source.k, target);
      return;
    case FloatType::kBFloat16: {
      const uint16_t* elements = reinterpret_cast<const uint16_t*>(row);
      for (int64_t i = 0; i < source.k; ++i) {
        target[i] = BFloat16ToFloat(elements[i]);
      }
      return;
    }
    case FloatType::kFloat32:
      std::memcpy(target, row, source.k * sizeof(float));
      if (signature.mode == ComputeMode::kA16) {
        RoundRow(source, target);
      }
      return;
  }
}

// The largest finite magnitude, by its bits: those order as integers.
float LargestFinite(const float* row, int64_t k) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < k; ++i) {
    const uint32_t magnitude = FloatBits(row[i]) & 0x7fffffffu;
    const uint32_t finite = magnitude < 0x7f800000u ? magnitude : 0;
    largest = std::max(largest, finite);
  }
  return FloatFromBits(largest);
}

// Rounds to the nearest integer, half away from zero; |x| <= 127.5.
int RoundHalfAway(float x) {
  const int whole = static_cast<int>(x);
  const float rest = x - static_cast<float>(whole);
  return whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
}

// Position of element k of a group of 8 (microkernel.h).
constexpr int kStoredAt[8] = {0, 4, 1, 5, 2, 6, 3, 7};

void MultiplyRow(float factor, absl::Span<float> row) {
  for (float& x : row) x *= factor;
}

float QuantizeBlock(const float* block, int8_t* q8, int32_t& sum) {
  sum = 0;
  std::memset(q8, 0, kBlockElements);
  if (!AllFinite({block, kBlockElements}))
    return std::numeric_limits<float>::quiet_NaN();
  const float d = LargestFinite(block, kBlockElements) / 127.0f;
  if (d == 0) return 0;
  for (int i = 0; i < kBlockElements; ++i) {
    const int q = RoundHalfAway(std::clamp(block[i] / d, -127.0f, 127.0f));
    q8[(i & ~7) + kStoredAt[i & 7]] = static_cast<int8_t>(q);
    sum += q;
  }
  return d;
}

// Computes all rows of a tile, also those beyond the layer's last: loops of a
// fixed length compile to vectors.
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

FloatType HalfTypeOf(const MatmulSignature& signature) {
  return signature.a_type == FloatType::kFloat32 ? signature.rounding
                                                 : signature.a_type;
}

bool AllFinite(absl::Span<const float> row) {
  uint32_t infinite = 0;
  for (const float x : row) {
    infinite |= (FloatBits(x) & 0x7f800000u) == 0x7f800000u ? 1 : 0;
  }
  return infinite == 0;
}

double PrepareRow(const RowSource& source, const uint8_t* row, int64_t padded_k,
                  float* scratch, float* target) {
  if (source.permutation.empty()) {
    ConvertRow(source, row, target);
  } else {
    ConvertRow(source, row, scratch);
    for (int64_t i = 0; i < source.k; ++i) {
      target[i] = scratch[source.permutation[i]];
    }
  }
  std::fill(target + source.k, target + padded_k, 0.0f);
  if (source.signature.a_type == FloatType::kFloat16) return 1;
  const absl::Span<float> values(target, source.k);
  const float largest = LargestFinite(target, source.k);
  if (largest >= kLargeRow) {
    MultiplyRow(static_cast<float>(1 / kRowUnit), values);
    return kRowUnit;
  }
  if (largest > 0 && largest < kSmallRow) {
    MultiplyRow(static_cast<float>(kRowUnit), values);
    return 1 / kRowUnit;
  }
  return 1;
}

void QuantizeRow(const float* row, int64_t blocks, const Q8Row& target) {
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t first = block * kBlockElements;
    target.d8[block] =
        QuantizeBlock(row + first, target.q8 + first, target.q8_sum[block]);
  }
}

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

}  // namespace qgemm::cpu
