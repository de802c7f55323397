// SPDX-License-Identifier: Apache-2.0
//
// Quantizes row by row, packs each row as its format has it, and puts the
// sections in order at the end.

#include "kernels/formats/weights_encoder.h"

#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/formats/e4m4.h"
#include "kernels/formats/int4.h"
#include "kernels/formats/kbit.h"
#include "kernels/formats/q4_0.h"
#include "kernels/formats/row_quantizer.h"
#include "kernels/formats/section_decoder.h"
#include "kernels/formats/ternary.h"

namespace qgemm {
namespace {

void SetKbit(const EncodeOptions& options, WeightsSpec* spec) {
  spec->format = WireFormat::kKbit;
  spec->bits = options.bits;
  spec->scale_type = options.scale_type;
  spec->has_codebook = !options.codebook.empty();
}

void SetInt4(const EncodeOptions& options, WeightsSpec* spec) {
  spec->format = WireFormat::kInt4;
  spec->scale_type = options.scale_type == ScaleType::kE4m4
                         ? ScaleType::kFloat16
                         : options.scale_type;
  spec->group_size = options.group_size;
  spec->has_zeros = options.asymmetric;
}

absl::StatusOr<WeightsSpec> SpecOf(const EncodeOptions& options, int64_t n,
                                   int64_t k, bool has_bias) {
  WeightsSpec spec;
  spec.n = n;
  spec.k = k;
  spec.has_bias = has_bias;
  switch (options.target) {
    case QuantizeTarget::kNone:
      return absl::InvalidArgumentError(
          "target = none: must be kbit, q4_0, int4 or ternary");
    case QuantizeTarget::kKbit:
      SetKbit(options, &spec);
      break;
    case QuantizeTarget::kQ4_0:
      spec.format = WireFormat::kQ4_0;
      break;
    case QuantizeTarget::kInt4:
      SetInt4(options, &spec);
      break;
    case QuantizeTarget::kTernary:
      spec.format = WireFormat::kTernary;
      spec.ternary_coding = options.ternary_coding;
      break;
  }
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  RETURN_IF_ERROR(Validate(spec, {kAny, kAny}));
  return spec;
}

absl::Status CheckCount(absl::string_view what, int64_t count,
                        int64_t expected) {
  if (count == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " has ", count, " values: must be ", expected));
}

std::vector<uint8_t> BytesOf(absl::Span<const float> values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return {bytes, bytes + values.size() * sizeof(float)};
}

class Encoder {
 public:
  Encoder(const WeightsSpec& spec, const EncodeOptions& options)
      : spec_(spec),
        target_(options.target),
        codebook_(options.codebook),
        header_(HeaderOf(spec)) {
    if (spec.has_codebook) header_.codebook = codebook_;
  }

  absl::Status Encode(absl::Span<const float> w);
  EncodedWeights Take(absl::Span<const float> bias);

 private:
  absl::Status PackRow(int64_t row, const QuantizedRow& quantized);
  absl::Status PackQ4_0Row(int64_t row, const QuantizedRow& quantized);
  absl::Status AppendScales(int64_t row, absl::Span<const float> scales,
                            ScaleType type);
  absl::Status StoreAbsmax();
  // The next `bytes` of the codes.
  uint8_t* Grow(int64_t bytes);

  WeightsSpec spec_;
  const QuantizeTarget target_;
  const std::vector<float> codebook_;
  WeightsHeader header_;
  std::vector<float> absmax_;  // kbit, until all are known
  std::vector<uint8_t> scales_;
  std::vector<uint8_t> zeros_;
  std::vector<uint8_t> codes_;
};

absl::Status Encoder::Encode(absl::Span<const float> w) {
  const std::unique_ptr<RowQuantizer> quantizer =
      NewRowQuantizer(target_, header_);
  QuantizedRow quantized(header_);
  codes_.reserve(SectionsOf(spec_).back().bytes);
  for (int64_t row = 0; row < spec_.n; ++row) {
    const absl::Span<const float> weights = w.subspan(row * spec_.k, spec_.k);
    RETURN_IF_ERROR(CheckWeights(weights, row));
    quantizer->Quantize(weights.data(), &quantized);
    RETURN_IF_ERROR(PackRow(row, quantized));
  }
  return target_ == QuantizeTarget::kKbit ? StoreAbsmax() : absl::OkStatus();
}

absl::Status Encoder::PackRow(int64_t row, const QuantizedRow& quantized) {
  const int64_t k = spec_.k;
  const uint8_t* codes = quantized.codes.data();
  switch (spec_.format) {
    case WireFormat::kKbit: {
      const int64_t blocks = k / kKbitBlock;
      PackKbit(spec_.bits, codes, blocks,
               Grow(blocks * KbitBlockBytes(spec_.bits)));
      absmax_.insert(absmax_.end(), quantized.scales.begin(),
                     quantized.scales.end());
      return absl::OkStatus();
    }
    case WireFormat::kQ4_0:
      return PackQ4_0Row(row, quantized);
    case WireFormat::kTernary:
      PackTernaryRow(spec_.ternary_coding, codes, k,
                     Grow(TernaryRowBytes(spec_.ternary_coding, k)));
      break;
    default:
      PackInt4Row(codes, k, Grow(CeilDiv(k, 2)));
      zeros_.insert(zeros_.end(), quantized.zeros.begin(),
                    quantized.zeros.end());
  }
  return AppendScales(row, quantized.scales, header_.scale_type);
}

absl::Status Encoder::PackQ4_0Row(int64_t row, const QuantizedRow& quantized) {
  scales_.clear();  // of this row only; they travel inside the blocks
  RETURN_IF_ERROR(AppendScales(row, quantized.scales, header_.scale_type));
  for (size_t block = 0; block < quantized.scales.size(); ++block) {
    PackQ4_0(&scales_[2 * block], &quantized.codes[block * kQ4_0Block],
             Grow(kQ4_0BlockBytes));
  }
  return absl::OkStatus();
}

absl::Status Encoder::AppendScales(int64_t row, absl::Span<const float> scales,
                                   ScaleType type) {
  const size_t filled = scales_.size();
  scales_.resize(filled + scales.size() * SizeOf(type));
  int64_t flushed = 0;  // decoding counts them again where that matters
  return StoreScales(type, row, scales, scales_.data() + filled, &flushed);
}

absl::Status Encoder::StoreAbsmax() {
  if (spec_.scale_type == ScaleType::kE4m4) {
    E4m4Range range;
    for (const float absmax : absmax_) range.Add(absmax);
    if (range.TensorScale() != 1.0f) spec_.scale_type = ScaleType::kFloat32;
  }
  const int64_t blocks = spec_.k / kKbitBlock;
  for (int64_t row = 0; row < spec_.n; ++row) {
    const absl::Span<const float> absmax(&absmax_[row * blocks], blocks);
    RETURN_IF_ERROR(AppendScales(row, absmax, spec_.scale_type));
  }
  return absl::OkStatus();
}

uint8_t* Encoder::Grow(int64_t bytes) {
  codes_.resize(codes_.size() + bytes);
  return codes_.data() + codes_.size() - bytes;
}

EncodedWeights Encoder::Take(absl::Span<const float> bias) {
  EncodedWeights encoded{spec_, {}};
  for (const SectionSize& size : SectionsOf(spec_)) {
    encoded.sections.push_back({size.section, {}});
    std::vector<uint8_t>& bytes = encoded.sections.back().bytes;
    switch (size.section) {
      case Section::kCodebook:
        bytes = BytesOf(codebook_);
        break;
      case Section::kGroupIndex:
        break;  // nothing we encode has one
      case Section::kBias:
        bytes = BytesOf(bias);
        break;
      case Section::kScales:
        bytes = std::move(scales_);
        break;
      case Section::kZeros:
        bytes = std::move(zeros_);
        break;
      case Section::kCodes:
        bytes = std::move(codes_);
        break;
    }
  }
  return encoded;
}

}  // namespace

absl::StatusOr<EncodedWeights> EncodeWeights(absl::Span<const float> w,
                                             int64_t n, int64_t k,
                                             absl::Span<const float> bias,
                                             const EncodeOptions& options) {
  ASSIGN_OR_RETURN(const WeightsSpec spec,
                   SpecOf(options, n, k, !bias.empty()));
  RETURN_IF_ERROR(CheckCount("w", w.size(), n * k));
  if (spec.has_bias) RETURN_IF_ERROR(CheckCount("bias", bias.size(), n));
  RETURN_IF_ERROR(CheckFinite(bias, "bias"));
  if (spec.has_codebook) {
    RETURN_IF_ERROR(
        CheckCount("codebook", options.codebook.size(), 1 << spec.bits));
    RETURN_IF_ERROR(CheckFinite(options.codebook, "codebook"));
  }
  Encoder encoder(spec, options);
  RETURN_IF_ERROR(encoder.Encode(w));
  return encoder.Take(bias);
}

}  // namespace qgemm
