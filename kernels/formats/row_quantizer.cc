// SPDX-License-Identifier: Apache-2.0
//
// One class a target; the formulas are those of docs/formats.md, in fp32.

#include "kernels/formats/row_quantizer.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/float16.h"
#include "kernels/formats/codebooks.h"
#include "kernels/formats/e4m4.h"

namespace qgemm {
namespace {

constexpr int64_t kBlock = 32;  // kbit and Q4_0

// To the nearest integer, halves to even, for magnitudes below 2^22.
float RoundEven(float value) {
  constexpr float kShift = 0x1.8p23f;
  return (value + kShift) - kShift;
}

float Absmax(const float* values, int64_t count) {
  uint32_t largest = 0;  // magnitudes of floats sort as their bits
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, FloatBits(values[i]) & 0x7fffffffu);
  }
  return FloatFromBits(largest);
}

class KbitQuantizer final : public RowQuantizer {
 public:
  explicit KbitQuantizer(const WeightsHeader& header)
      : blocks_(header.k / kBlock), nearest_(header.codebook) {}

  void Quantize(const float* row, QuantizedRow* out) const override {
    for (int64_t block = 0; block < blocks_; ++block) {
      const float* x = row + block * kBlock;
      const float absmax = Absmax(x, kBlock);
      const float divisor = std::max(absmax, 1e-8f);
      float normalized[kBlock];
      for (int i = 0; i < kBlock; ++i) normalized[i] = x[i] / divisor;
      nearest_.Find32(normalized, &out->codes[block * kBlock]);
      out->scales[block] = absmax;
    }
  }

 private:
  const int64_t blocks_;
  const NearestCode nearest_;
};

class Q4_0Quantizer final : public RowQuantizer {
 public:
  explicit Q4_0Quantizer(const WeightsHeader& header)
      : blocks_(header.k / kBlock) {}

  void Quantize(const float* row, QuantizedRow* out) const override {
    for (int64_t block = 0; block < blocks_; ++block) {
      const float* x = row + block * kBlock;
      const float absmax = Absmax(x, kBlock);
      const float extreme = *std::find_if(x, x + kBlock, [&](float value) {
        return std::fabs(value) == absmax;
      });
      const float d = extreme / -8.0f;
      float inverse = 1.0f / d;
      // d is zero, or so small that it is zero once it is stored as fp16.
      if (!std::isfinite(inverse)) inverse = 0.0f;
      for (int i = 0; i < kBlock; ++i) {
        // Within 0.5 to 16.5, as |x * inverse| <= 8; the cast truncates.
        const int code = static_cast<int>(x[i] * inverse + 8.5f);
        out->codes[block * kBlock + i] = std::min(code, 15);
      }
      out->scales[block] = d;
    }
  }

 private:
  const int64_t blocks_;
};

class Int4Quantizer final : public RowQuantizer {
 public:
  explicit Int4Quantizer(const WeightsHeader& header) : header_(header) {}

  void Quantize(const float* row, QuantizedRow* out) const override {
    const int64_t groups = header_.groups_per_row();
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t begin = group * header_.group_size;
      const int64_t count = std::min(header_.group_size, header_.k - begin);
      float zero = 8.0f;
      float& scale = out->scales[group];
      if (header_.has_zeros) {
        std::tie(scale, zero) = Asymmetric(row + begin, count);
        out->zeros[group] = static_cast<uint8_t>(zero);
      } else {
        scale = Absmax(row + begin, count) / 7.0f;
      }
      for (int64_t i = begin; i < begin + count; ++i) {
        const float steps = scale == 0 ? 0 : RoundEven(row[i] / scale);
        const float code = std::clamp(steps + zero, 0.0f, 15.0f);
        out->codes[i] = static_cast<uint8_t>(code);
      }
    }
  }

 private:
  // Scale and zero for the range of the values, widened to hold 0, so that
  // the zero is a code.
  static std::pair<float, float> Asymmetric(const float* x, int64_t count) {
    const auto [low, high] = std::minmax_element(x, x + count);
    const float smallest = std::min(*low, 0.0f);
    const float scale = (std::max(*high, 0.0f) - smallest) / 15.0f;
    if (scale == 0 || std::isinf(scale)) return {scale, 0.0f};
    return {scale, std::min(RoundEven(-smallest / scale), 15.0f)};
  }

  const WeightsHeader& header_;
};

class TernaryQuantizer final : public RowQuantizer {
 public:
  explicit TernaryQuantizer(const WeightsHeader& header) : k_(header.k) {}

  void Quantize(const float* row, QuantizedRow* out) const override {
    double sum = 0;
    for (int64_t i = 0; i < k_; ++i) sum += std::fabs(row[i]);
    const float scale = static_cast<float>(sum / k_);
    for (int64_t i = 0; i < k_; ++i) {
      const float ratio = scale == 0 ? 0 : row[i] / scale;
      // 0.5 rounds to even, that is to 0.
      out->codes[i] = 1 + (ratio > 0.5f) - (ratio < -0.5f);
    }
    out->scales[0] = scale;
  }

 private:
  const int64_t k_;
};

void StoreScale(ScaleType type, float scale, uint8_t* bytes) {
  switch (type) {
    case ScaleType::kE4m4:
      *bytes = FloatToE4m4(scale);
      return;
    case ScaleType::kFloat16:
      return StoreFloat(FloatType::kFloat16, scale, bytes);
    case ScaleType::kBFloat16:
      return StoreFloat(FloatType::kBFloat16, scale, bytes);
    case ScaleType::kFloat32:
      return StoreFloat(FloatType::kFloat32, scale, bytes);
  }
}

}  // namespace

std::unique_ptr<RowQuantizer> NewRowQuantizer(QuantizeTarget target,
                                              const WeightsHeader& header) {
  switch (target) {
    case QuantizeTarget::kNone:
      break;
    case QuantizeTarget::kKbit:
      return std::make_unique<KbitQuantizer>(header);
    case QuantizeTarget::kQ4_0:
      return std::make_unique<Q4_0Quantizer>(header);
    case QuantizeTarget::kInt4:
      return std::make_unique<Int4Quantizer>(header);
    case QuantizeTarget::kTernary:
      return std::make_unique<TernaryQuantizer>(header);
  }
  LOG(FATAL) << "no quantizer to " << Name(target);
  return nullptr;
}

absl::Status CheckWeights(absl::Span<const float> weights, int64_t row) {
  constexpr uint32_t kInfinity = 0x7f800000u;
  uint32_t largest = 0;
  for (const float weight : weights) {
    largest = std::max(largest, FloatBits(weight) & 0x7fffffffu);
  }
  if (largest < kInfinity) return absl::OkStatus();
  const auto bad = std::find_if(weights.begin(), weights.end(),
                                [](float w) { return !std::isfinite(w); });
  return absl::InvalidArgumentError(
      absl::StrCat("weights: row ", row, ", column ", bad - weights.begin(),
                   " = ", *bad, ": must be finite"));
}

absl::Status StoreScales(ScaleType type, int64_t row,
                         absl::Span<const float> scales, uint8_t* bytes,
                         int64_t* flushed) {
  const int64_t size = SizeOf(type);
  for (size_t group = 0; group < scales.size(); ++group) {
    uint8_t* target = bytes + group * size;
    StoreScale(type, scales[group], target);
    const float stored = LoadScale(type, target);
    if (!std::isfinite(stored)) {
      return absl::InvalidArgumentError(
          absl::StrCat("weights: row ", row, ", group ", group, ": its scale ",
                       scales[group], " is too large for ", Name(type)));
    }
    if (stored == 0 && scales[group] != 0) ++*flushed;
  }
  return absl::OkStatus();
}

}  // namespace qgemm
