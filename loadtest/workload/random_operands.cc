// SPDX-License-Identifier: Apache-2.0
//
// Draws operands, and encodes and decodes weights with kernels/formats.

#include "loadtest/workload/random_operands.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "loadtest/random/normal_values.h"
#include "kernels/formats/weights_decoder.h"
#include "kernels/formats/weights_spec.h"

namespace qgemm {
namespace {

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

absl::StatusOr<EncodeOptions> QuantizerOf(absl::string_view format) {
  EncodeOptions options;
  if (format.size() == 5 && absl::StartsWith(format, "kbit") &&
      format[4] >= '2' && format[4] <= '5') {
    options.bits = format[4] - '0';
    return options;
  }
  if (format == "q4_0") {
    options.target = QuantizeTarget::kQ4_0;
    options.scale_type = ScaleType::kFloat16;
    return options;
  }
  if (format == "ternary") {
    options.target = QuantizeTarget::kTernary;
    options.scale_type = ScaleType::kFloat16;
    return options;
  }
  if (format == "int4" || format == "int4-asymmetric") {
    options.target = QuantizeTarget::kInt4;
    options.scale_type = ScaleType::kFloat16;
    options.asymmetric = format != "int4";
    return options;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--format=", format, ": must be kbit2, kbit3, kbit4, kbit5, q4_0, ",
      "ternary, int4, int4-asymmetric, fp16 or bf16"));
}

absl::StatusOr<RowEncoder> EncoderOf(absl::string_view format) {
  if (format == "fp16" || format == "bf16") {
    const FloatType type =
        format == "fp16" ? FloatType::kFloat16 : FloatType::kBFloat16;
    return [type](absl::Span<const float> w, int64_t n, int64_t k) {
      return EncodeDense(type, w, n, k);
    };
  }
  ASSIGN_OR_RETURN(const EncodeOptions options, QuantizerOf(format));
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

// `shape` with the sections of `panel`, empty, and room for all rows.
EncodedWeights EmptyLike(const EncodedWeights& panel,
                         const SyntheticShape& shape) {
  EncodedWeights empty;
  empty.spec = panel.spec;
  empty.spec.n = shape.n;
  for (const SectionSize& size : SectionsOf(empty.spec)) {
    empty.sections.push_back({size.section, {}});
    empty.sections.back().bytes.reserve(size.bytes);
  }
  return empty;
}

}  // namespace

absl::StatusOr<EncodedWeights> MakeRandomWeights(absl::string_view format,
                                                 const SyntheticShape& shape,
                                                 uint64_t seed) {
  if (shape.k < 1 || shape.n < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shape ", shape.k, "x", shape.n, ": k and n must each be 1 or more"));
  }
  ASSIGN_OR_RETURN(const RowEncoder encode, EncoderOf(format));
  const int64_t panel_rows =
      std::clamp<int64_t>(kPanelElements / shape.k, 1, shape.n);
  NormalValues normal(seed);
  std::vector<float> w(panel_rows * shape.k);
  EncodedWeights all;
  for (int64_t row = 0; row < shape.n; row += panel_rows) {
    const int64_t rows = std::min(panel_rows, shape.n - row);
    w.resize(rows * shape.k);
    normal.Fill(kWeightDeviation, absl::MakeSpan(w));
    ASSIGN_OR_RETURN(const EncodedWeights panel, encode(w, rows, shape.k));
    if (row == 0) all = EmptyLike(panel, shape);
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

}  // namespace qgemm
