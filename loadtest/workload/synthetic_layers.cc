// SPDX-License-Identifier: Apache-2.0

#include "loadtest/workload/synthetic_layers.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "kernels/formats/weights_decoder.h"
#include "kernels/formats/weights_spec.h"
#include "loadtest/workload/workload.h"

namespace qgemm::loadtest {
namespace {

// Fills `values` from a table of 65536 normal values: by the hundred million a
// second, good enough for data to multiply, too coarse for rare events.
void FillNormal(float deviation, std::mt19937_64* random,
                std::vector<float>* values) {
  static const auto* const table = [] {
    auto* const drawn = new std::vector<float>(1 << 16);
    std::mt19937_64 fixed;
    std::normal_distribution<float> normal;
    for (float& value : *drawn) value = normal(fixed);
    return drawn;
  }();
  uint64_t bits = 0;
  for (size_t i = 0; i < values->size(); ++i, bits >>= 16) {
    if (i % 4 == 0) bits = (*random)();
    (*values)[i] = deviation * (*table)[bits & 0xffff];
  }
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
void AppendRows(const EncodedWeights& panel, EncodedWeights* all) {
  CHECK(panel.spec.scale_type == all->spec.scale_type) << "a scale overflows";
  for (size_t i = 0; i < panel.sections.size(); ++i) {
    std::vector<uint8_t>& bytes = all->sections[i].bytes;
    const std::vector<uint8_t>& more = panel.sections[i].bytes;
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
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

absl::StatusOr<EncodedWeights> MakeRandomWeights(absl::string_view format,
                                                 int64_t k, int64_t n,
                                                 uint64_t seed) {
  ASSIGN_OR_RETURN(const RowEncoder encode, EncoderOf(format));
  const int64_t panel_rows = std::clamp<int64_t>(kPanelElements / k, 1, n);
  std::mt19937_64 random(seed);
  std::vector<float> w(panel_rows * k);
  EncodedWeights all;
  for (int64_t row = 0; row < n; row += panel_rows) {
    const int64_t rows = std::min(panel_rows, n - row);
    w.resize(rows * k);
    FillNormal(kWeightDeviation, &random, &w);
    ASSIGN_OR_RETURN(const EncodedWeights panel, encode(w, rows, k));
    if (row == 0) all = EmptyLike(panel, n);
    AppendRows(panel, &all);
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
  std::mt19937_64 random(seed);
  FillNormal(1, &random, &values);
  std::vector<uint8_t> bytes(elements * SizeOf(type));
  for (int64_t i = 0; i < elements; ++i) {
    StoreFloat(type, values[i], bytes.data() + i * SizeOf(type));
  }
  return bytes;
}

std::string SyntheticName(const SyntheticLayer& layer) {
  return absl::StrCat("loadtest/", layer.format, "/", layer.k, "x", layer.n,
                      "/", layer.seed, "/", layer.index);
}

EncodedWeights RotateRows(const EncodedWeights& base, int64_t row_shift) {
  CHECK(row_shift >= 0 && row_shift < base.spec.n) << row_shift;
  EncodedWeights rotated = base;
  for (EncodedWeights::SectionBytes& section : rotated.sections) {
    if (section.section == Section::kCodebook) continue;
    const int64_t row_bytes = section.bytes.size() / base.spec.n;
    std::rotate(section.bytes.begin(),
                section.bytes.begin() + row_shift * row_bytes,
                section.bytes.end());
  }
  return rotated;
}

absl::StatusOr<EncodedWeights> SyntheticLayers::Make(
    const SyntheticLayer& layer) {
  if (layer.k < 1 || layer.n < 1 || layer.index < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(SyntheticName(layer),
                     ": k and n must be 1 or more, the index 0 or more"));
  }
  // `n` rows have `n` rotations; layers beyond them are drawn from other seeds.
  const uint64_t generation = layer.index / layer.n;
  SyntheticLayer base = layer;
  base.index = 0;
  if (generation > 0) base.seed = MixBits(layer.seed ^ MixBits(generation));
  const std::string key = SyntheticName(base);
  auto found = bases_.find(key);
  if (found == bases_.end()) {
    ASSIGN_OR_RETURN(EncodedWeights drawn,
                     MakeRandomWeights(base.format, base.k, base.n, base.seed));
    found = bases_.emplace(key, std::move(drawn)).first;
  }
  return RotateRows(found->second, layer.index % layer.n);
}

}  // namespace qgemm::loadtest
