// SPDX-License-Identifier: Apache-2.0
//
// Draws operands, and encodes and decodes weights with kernels/formats.

#include "loadtest/workload/random_operands.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "kernels/formats/weights_decoder.h"
#include "kernels/formats/weights_spec.h"

namespace qgemm::loadtest {
namespace {

constexpr int kQuantiles = 1 << 16;
using Quantiles = std::array<float, kQuantiles>;

double NormalCdf(double x) { return std::erfc(-x * std::sqrt(0.5)) / 2; }

double NormalDensity(double x) {
  constexpr double kOneOverRootTwoPi = 0.3989422804014327;
  return kOneOverRootTwoPi * std::exp(-x * x / 2);
}

Quantiles MakeQuantiles() {
  Quantiles quantiles;
  double x = -4.4;  // below the first
  for (int i = 0; i < kQuantiles / 2; ++i) {
    const double probability = (i + 0.5) / kQuantiles;
    // Newton's method from the quantile before. Below 0 the distribution is
    // convex: its steps converge from either side. Four reach a float's
    // precision even over the widest gap, the first.
    for (int step = 0; step < 4; ++step) {
      x += (probability - NormalCdf(x)) / NormalDensity(x);
    }
    quantiles[i] = static_cast<float>(x);
    quantiles[kQuantiles - 1 - i] = -quantiles[i];
  }
  return quantiles;
}

constexpr float kWeightDeviation = 0.02f;  // of a trained linear layer

constexpr int64_t kPanelElements = 1 << 18;  // 1 MiB: stays in a cache

// Encodes w[n, k].
using RowEncoder = std::function<absl::StatusOr<EncodedWeights>(
    absl::Span<const float> w, int64_t n, int64_t k)>;

EncodedWeights EncodeDense(FloatType type, absl::Span<const float> w, int64_t n,
                           int64_t k) {
  EncodedWeights encoded;
  encoded.spec.format = WireFormat::kDense;
  encoded.spec.n = n;
  encoded.spec.k = k;
  encoded.spec.dense_type = type;
  encoded.spec.resident_type = type;
  std::vector<uint8_t> bytes(w.size() * SizeOf(type));
  for (size_t i = 0; i < w.size(); ++i) {
    StoreFloat(type, w[i], bytes.data() + i * SizeOf(type));
  }
  encoded.sections.push_back({Section::kCodes, std::move(bytes)});
  return encoded;
}

absl::StatusOr<RowEncoder> EncoderOf(absl::string_view format) {
  for (const FloatType type : {FloatType::kFloat16, FloatType::kBFloat16}) {
    if (format != Name(type)) continue;
    return [type](absl::Span<const float> w, int64_t n, int64_t k) {
      return EncodeDense(type, w, n, k);
    };
  }
  EncodeOptions options;
  absl::string_view bits = format;
  if (absl::ConsumePrefix(&bits, "kbit") && bits.size() == 1 &&
      bits[0] >= '2' && bits[0] <= '5') {
    options.bits = bits[0] - '0';
  } else {
    options.scale_type = ScaleType::kFloat16;
    options.asymmetric = format == "int4-asymmetric";
    if (format == "q4_0") {
      options.target = QuantizeTarget::kQ4_0;
    } else if (format == "ternary") {
      options.target = QuantizeTarget::kTernary;
    } else if (format == "int4" || options.asymmetric) {
      options.target = QuantizeTarget::kInt4;
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "--format=", format, ": must be kbit2, kbit3, kbit4, kbit5, q4_0, ",
          "ternary, int4, int4-asymmetric, fp16 or bf16"));
    }
  }
  return [options](absl::Span<const float> w, int64_t n, int64_t k) {
    return EncodeWeights(w, n, k, {}, options);
  };
}

// Adds the rows of `panel` below those of `all`, which has room for them.
absl::Status AppendRows(const EncodedWeights& panel, EncodedWeights* all) {
  if (panel.spec.scale_type != all->spec.scale_type) {
    // Takes a block of weights 20 times smaller than they are on average.
    return absl::InternalError(absl::StrCat(
        "random weights: rows have scales in ", Name(panel.spec.scale_type),
        ", those before them in ", Name(all->spec.scale_type)));
  }
  for (size_t i = 0; i < panel.sections.size(); ++i) {
    std::vector<uint8_t>& bytes = all->sections[i].bytes;
    const std::vector<uint8_t>& more = panel.sections[i].bytes;
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  return absl::OkStatus();
}

// Weights of `n` rows with the sections of `panel`, empty, and room for all
// rows.
EncodedWeights EmptyLike(const EncodedWeights& panel, int64_t n) {
  EncodedWeights empty;
  empty.spec = panel.spec;
  empty.spec.n = n;
  for (const SectionSize& size : SectionsOf(empty.spec)) {
    empty.sections.push_back({size.section, {}});
    empty.sections.back().bytes.reserve(size.bytes);
  }
  return empty;
}

}  // namespace

void NormalValues::Fill(float deviation, absl::Span<float> values) {
  static const Quantiles quantiles = MakeQuantiles();
  constexpr size_t kValuesADraw = 4;
  size_t i = 0;
  for (; i + kValuesADraw <= values.size(); i += kValuesADraw) {
    const uint64_t bits = random_.Next();
    values[i] = deviation * quantiles[bits & 0xffff];
    values[i + 1] = deviation * quantiles[bits >> 16 & 0xffff];
    values[i + 2] = deviation * quantiles[bits >> 32 & 0xffff];
    values[i + 3] = deviation * quantiles[bits >> 48];
  }
  for (; i < values.size(); ++i) {
    values[i] = deviation * quantiles[random_.Next() >> 48];
  }
}

absl::StatusOr<EncodedWeights> MakeRandomWeights(absl::string_view format,
                                                 int64_t k, int64_t n,
                                                 uint64_t seed) {
  if (k < 1 || n < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", k, "x", n, ": k and n must each be 1 or more"));
  }
  ASSIGN_OR_RETURN(const RowEncoder encode, EncoderOf(format));
  const int64_t panel_rows = std::clamp<int64_t>(kPanelElements / k, 1, n);
  NormalValues normal(seed);
  std::vector<float> w(panel_rows * k);
  EncodedWeights all;
  for (int64_t row = 0; row < n; row += panel_rows) {
    const int64_t rows = std::min(panel_rows, n - row);
    w.resize(rows * k);
    normal.Fill(kWeightDeviation, absl::MakeSpan(w));
    ASSIGN_OR_RETURN(const EncodedWeights panel, encode(w, rows, k));
    if (row == 0) all = EmptyLike(panel, n);
    RETURN_IF_ERROR(AppendRows(panel, &all));
  }
  return all;
}

absl::StatusOr<CanonicalWeights> DecodeWeights(const EncodedWeights& weights) {
  CanonicalWeights canonical;
  const std::unique_ptr<WeightsDecoder> decoder =
      NewWeightsDecoder(weights.spec, &canonical);
  for (const EncodedWeights::SectionBytes& section : weights.sections) {
    RETURN_IF_ERROR(decoder->Append(section.section, section.bytes));
  }
  RETURN_IF_ERROR(decoder->Finish().status());
  return canonical;
}

std::vector<uint8_t> MakeRandomActivations(FloatType type, int64_t elements,
                                           uint64_t seed) {
  std::vector<float> values(elements);
  NormalValues(seed).Fill(1.0f, absl::MakeSpan(values));
  std::vector<uint8_t> bytes(elements * SizeOf(type));
  for (int64_t i = 0; i < elements; ++i) {
    StoreFloat(type, values[i], bytes.data() + i * SizeOf(type));
  }
  return bytes;
}

}  // namespace qgemm::loadtest
