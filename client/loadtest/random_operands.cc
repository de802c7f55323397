// SPDX-License-Identifier: Apache-2.0
//
// Draws operands, and encodes and decodes weights with kernels/formats.

#include "client/loadtest/random_operands.h"

#include <memory>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/formats/weights_decoder.h"
#include "kernels/formats/weights_spec.h"

namespace qgemm {
namespace {

constexpr float kWeightDeviation = 0.02f;  // of a trained linear layer

EncodedWeights EncodeDense(const std::vector<float>& w,
                           const SyntheticShape& shape, FloatType type) {
  EncodedWeights encoded;
  encoded.spec.format = WireFormat::kDense;
  encoded.spec.n = shape.n;
  encoded.spec.k = shape.k;
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

}  // namespace

absl::StatusOr<EncodedWeights> MakeRandomWeights(absl::string_view format,
                                                 const SyntheticShape& shape,
                                                 uint64_t seed) {
  const bool dense = format == "fp16" || format == "bf16";
  EncodeOptions options;
  if (!dense) {
    ASSIGN_OR_RETURN(options, QuantizerOf(format));
  }
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0f, kWeightDeviation);
  std::vector<float> w(shape.n * shape.k);
  for (float& value : w) value = normal(random);
  if (dense) {
    return EncodeDense(
        w, shape,
        format == "fp16" ? FloatType::kFloat16 : FloatType::kBFloat16);
  }
  return EncodeWeights(w, shape.n, shape.k, {}, options);
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
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<uint8_t> bytes(elements * SizeOf(type));
  for (int64_t i = 0; i < elements; ++i) {
    StoreFloat(type, normal(random), bytes.data() + i * SizeOf(type));
  }
  return bytes;
}

}  // namespace qgemm
