// SPDX-License-Identifier: Apache-2.0
//
// Random uploads and their decoding.

#include "tests/kernels/formats/codec_testing.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

using NextPiece = std::function<int64_t()>;

absl::Status CheckAllOnce(const std::vector<int>& counts, const char* what) {
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 1) {
      return absl::InternalError(
          absl::StrCat(what, " ", i, " written ", counts[i], " times"));
    }
  }
  return absl::OkStatus();
}

void CountBlock(int64_t pitch, const GroupPanel& panel,
                std::vector<int>* counts) {
  for (int64_t row = 0; row < panel.rows; ++row) {
    for (int64_t i = 0; i < panel.groups; ++i) {
      ++counts->at((panel.row_begin + row) * pitch + panel.group_begin + i);
    }
  }
}

absl::StatusOr<Upload::Decoded> DecodePieces(
    const WeightsSpec& spec,
    const std::vector<EncodedWeights::SectionBytes>& sections,
    const NextPiece& next_piece) {
  CountingSink sink;
  const std::unique_ptr<WeightsDecoder> decoder =
      NewWeightsDecoder(spec, &sink);
  for (const auto& section : sections) {
    absl::Span<const uint8_t> rest = section.bytes;
    while (!rest.empty()) {
      // A copy of its own, so that a sanitizer sees any step beyond it.
      const absl::Span<const uint8_t> head = rest.subspan(0, next_piece());
      const std::vector<uint8_t> piece(head.begin(), head.end());
      RETURN_IF_ERROR(decoder->Append(section.section, piece));
      rest.remove_prefix(piece.size());
    }
  }
  ASSIGN_OR_RETURN(const DecodeReport report, decoder->Finish());
  RETURN_IF_ERROR(sink.CheckComplete());
  return Upload::Decoded{sink.weights(), report};
}

// Replaces scales of bytes by finite positive ones.
void FillScales(ScaleType type, FreshRandom* random,
                std::vector<uint8_t>* bytes) {
  if (type == ScaleType::kE4m4) return;
  const int64_t size = SizeOf(type);
  for (size_t i = 0; i < bytes->size(); i += size) {
    const float scale = random->Uniform(0.01f, 2.0f);
    const FloatType as = type == ScaleType::kFloat32   ? FloatType::kFloat32
                         : type == ScaleType::kFloat16 ? FloatType::kFloat16
                                                       : FloatType::kBFloat16;
    StoreFloat(as, scale, &(*bytes)[i]);
  }
}

void FillFloats(FloatType type, FreshRandom* random,
                std::vector<uint8_t>* bytes) {
  for (size_t i = 0; i < bytes->size(); i += SizeOf(type)) {
    StoreFloat(type, random->Uniform(-2.0f, 2.0f), &(*bytes)[i]);
  }
}

void FillTernary(TernaryCoding coding, FreshRandom* random,
                 std::vector<uint8_t>* bytes) {
  for (uint8_t& byte : *bytes) {
    if (coding == TernaryCoding::kInt8) {
      byte = random->Int(-1, 1);
      continue;
    }
    const int offset = coding == TernaryCoding::kPacked123 ? 1 : 0;
    byte = 0;
    for (int i = 0; i < 4; ++i) {
      byte |= (random->Int(0, 2) + offset) << (2 * i);
    }
  }
}

void FillGroupIndex(const WeightsSpec& spec, FreshRandom* random,
                    Upload* upload) {
  const int64_t group = spec.group_size == 0 ? spec.k : spec.group_size;
  std::vector<int32_t> index(spec.k);
  for (int64_t i = 0; i < spec.k; ++i) index[i] = i / group;
  std::shuffle(index.begin(), index.end(), random->engine());
  for (int64_t i = 0; i < spec.k; ++i) {
    upload->Put<int32_t>(Section::kGroupIndex, i, index[i]);
  }
}

void FillCodes(const WeightsSpec& spec, FreshRandom* random,
               std::vector<uint8_t>* codes) {
  if (spec.format == WireFormat::kTernary) {
    FillTernary(spec.ternary_coding, random, codes);
  } else if (spec.format == WireFormat::kDense) {
    FillFloats(spec.dense_type, random, codes);
  } else if (spec.format == WireFormat::kQ4_0) {
    for (size_t i = 0; i < codes->size(); i += 18) {
      StoreFloat(FloatType::kFloat16, random->Uniform(-1.0f, 1.0f),
                 &(*codes)[i]);
    }
  }
}

void AddKbitSpecs(std::vector<WeightsSpec>* specs) {
  for (int bits = 2; bits <= 5; ++bits) {
    for (const ScaleType type :
         {ScaleType::kE4m4, ScaleType::kFloat16, ScaleType::kFloat32}) {
      specs->push_back(KbitSpec(3, 96, bits));
      specs->back().scale_type = type;
      specs->push_back(KbitSpec(256, 96, bits));
      specs->back().scale_type = type;
      specs->back().kbit_layout = KbitLayout::kTiled;
      specs->back().has_codebook = true;
    }
  }
}

void AddTernarySpecs(std::vector<WeightsSpec>* specs) {
  for (const TernaryCoding coding :
       {TernaryCoding::kInt8, TernaryCoding::kPacked012,
        TernaryCoding::kPacked123}) {
    specs->push_back(TernarySpec(5, 37, coding));
    specs->push_back(TernarySpec(5, 37, coding));
    specs->back().tensor_wide_scale = true;
  }
}

void AddInt4Specs(ScaleType type, std::vector<WeightsSpec>* specs) {
  std::vector<WeightsSpec> added = {
      Int4Spec(3, 75, Int4Layout::kPlain, 32),
      Int4Spec(3, 75, Int4Layout::kPlain, 0),
      Int4Spec(24, 192, Int4Layout::kGptqV1, 32),
  };
  added[1].has_zeros = true;
  added[2].has_group_index = true;
  for (const Int4Layout layout :
       {Int4Layout::kGptqV1, Int4Layout::kGptqV2, Int4Layout::kAwq}) {
    added.push_back(Int4Spec(24, 192, layout, 64));
    added.push_back(Int4Spec(8, 40, layout, 0));
  }
  for (WeightsSpec& spec : added) spec.scale_type = type;
  specs->insert(specs->end(), added.begin(), added.end());
}

void AddDenseSpecs(FloatType type, std::vector<WeightsSpec>* specs) {
  specs->push_back(DenseSpec(4, 21, type));
  specs->push_back(DenseSpec(4, 64, type));
  specs->back().quantize_to = QuantizeTarget::kKbit;
  specs->back().bits = 3;
  specs->push_back(DenseSpec(4, 64, type));
  specs->back().quantize_to = QuantizeTarget::kQ4_0;
  specs->push_back(DenseSpec(4, 75, type));
  specs->back().quantize_to = QuantizeTarget::kInt4;
  specs->back().group_size = 32;
  specs->back().has_zeros = true;
  specs->push_back(DenseSpec(4, 21, type));
  specs->back().quantize_to = QuantizeTarget::kTernary;
}

}  // namespace

FreshRandom::FreshRandom() { engine_.seed(FreshSeed()); }

int64_t FreshRandom::Int(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(engine_);
}

float FreshRandom::Uniform(float low, float high) {
  return std::uniform_real_distribution<float>(low, high)(engine_);
}

std::vector<uint8_t> FreshRandom::Bytes(int64_t count) {
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = engine_();
  return bytes;
}

std::vector<float> FreshRandom::Gaussian(int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine_);
  return values;
}

absl::Status CountingSink::Begin(const WeightsHeader& header) {
  ++begins_;
  if (header.kind == WeightsHeader::Kind::kDense) {
    dense_rows_.resize(header.n);
  } else {
    codes_.resize(header.n * header.k);
    scales_.resize(header.n * header.groups_per_row());
    if (header.has_zeros) zeros_.resize(scales_.size());
  }
  return weights_.Begin(header);
}

absl::Status CountingSink::WriteCodes(const CodePanel& panel) {
  CountBlock(
      weights_.header().k,
      {panel.row_begin, panel.rows, panel.k_begin, panel.columns, panel.codes},
      &codes_);
  return weights_.WriteCodes(panel);
}

absl::Status CountingSink::WriteScales(const GroupPanel& panel) {
  CountBlock(weights_.header().groups_per_row(), panel, &scales_);
  return weights_.WriteScales(panel);
}

absl::Status CountingSink::WriteZeros(const GroupPanel& panel) {
  CountBlock(weights_.header().groups_per_row(), panel, &zeros_);
  return weights_.WriteZeros(panel);
}

absl::Status CountingSink::WriteDense(const DensePanel& panel) {
  for (int64_t i = 0; i < panel.rows; ++i) {
    ++dense_rows_.at(panel.row_begin + i);
  }
  return weights_.WriteDense(panel);
}

absl::Status CountingSink::SetTensorScale(float tensor_scale) {
  return weights_.SetTensorScale(tensor_scale);
}

absl::Status CountingSink::CheckComplete() const {
  if (begins_ != 1) {
    return absl::InternalError(absl::StrCat(begins_, " calls of Begin"));
  }
  RETURN_IF_ERROR(CheckAllOnce(codes_, "code"));
  RETURN_IF_ERROR(CheckAllOnce(scales_, "scale"));
  RETURN_IF_ERROR(CheckAllOnce(zeros_, "zero"));
  return CheckAllOnce(dense_rows_, "row");
}

Upload::Upload(const WeightsSpec& spec) : spec_(spec) {
  for (const SectionSize& size : SectionsOf(spec)) {
    sections_.push_back({size.section, std::vector<uint8_t>(size.bytes)});
  }
}

Upload::Upload(const EncodedWeights& encoded)
    : spec_(encoded.spec), sections_(encoded.sections) {}

std::vector<uint8_t>& Upload::operator[](Section section) {
  const auto found =
      std::find_if(sections_.begin(), sections_.end(),
                   [&](const auto& s) { return s.section == section; });
  return found->bytes;
}

absl::StatusOr<Upload::Decoded> Upload::Decode(int64_t piece_bytes) const {
  const int64_t bytes = piece_bytes == 0 ? INT64_MAX : piece_bytes;
  return DecodePieces(spec_, sections_, [&] { return bytes; });
}

absl::StatusOr<Upload::Decoded> Upload::DecodeRandomly(FreshRandom* random,
                                                       int64_t longest) const {
  return DecodePieces(spec_, sections_,
                      [&] { return random->Int(1, longest); });
}

bool SameWeights(const CanonicalWeights& a, const CanonicalWeights& b) {
  return a.codes() == b.codes() && a.scales() == b.scales() &&
         a.zeros() == b.zeros() && a.dense() == b.dense() &&
         a.tensor_scale() == b.tensor_scale() &&
         a.header().codebook == b.header().codebook &&
         a.header().permutation == b.header().permutation;
}

WeightsSpec KbitSpec(int64_t n, int64_t k, int bits) {
  WeightsSpec spec;
  spec.format = WireFormat::kKbit;
  spec.n = n;
  spec.k = k;
  spec.bits = bits;
  spec.scale_type = ScaleType::kE4m4;
  return spec;
}

WeightsSpec Q4_0Spec(int64_t n, int64_t k) {
  WeightsSpec spec;
  spec.format = WireFormat::kQ4_0;
  spec.n = n;
  spec.k = k;
  return spec;
}

WeightsSpec TernarySpec(int64_t n, int64_t k, TernaryCoding coding) {
  WeightsSpec spec;
  spec.format = WireFormat::kTernary;
  spec.n = n;
  spec.k = k;
  spec.ternary_coding = coding;
  return spec;
}

WeightsSpec Int4Spec(int64_t n, int64_t k, Int4Layout layout, int64_t group) {
  WeightsSpec spec;
  spec.format = WireFormat::kInt4;
  spec.n = n;
  spec.k = k;
  spec.int4_layout = layout;
  spec.group_size = group;
  return spec;
}

WeightsSpec DenseSpec(int64_t n, int64_t k, FloatType type) {
  WeightsSpec spec;
  spec.format = WireFormat::kDense;
  spec.n = n;
  spec.k = k;
  spec.dense_type = type;
  return spec;
}

std::vector<WeightsSpec> AllSpecs() {
  std::vector<WeightsSpec> specs = {Q4_0Spec(5, 64)};
  AddKbitSpecs(&specs);
  AddTernarySpecs(&specs);
  for (const ScaleType type :
       {ScaleType::kFloat16, ScaleType::kBFloat16, ScaleType::kFloat32}) {
    AddInt4Specs(type, &specs);
  }
  for (const FloatType type :
       {FloatType::kFloat32, FloatType::kFloat16, FloatType::kBFloat16}) {
    AddDenseSpecs(type, &specs);
  }
  for (WeightsSpec& spec : specs) spec.has_bias = true;
  return specs;
}

Upload RandomUpload(const WeightsSpec& spec, FreshRandom* random) {
  Upload upload(spec);
  for (const SectionSize& size : SectionsOf(spec)) {
    std::vector<uint8_t>& bytes = upload[size.section];
    bytes = random->Bytes(size.bytes);
    switch (size.section) {
      case Section::kCodebook:
      case Section::kBias:
        FillFloats(FloatType::kFloat32, random, &bytes);
        break;
      case Section::kGroupIndex:
        FillGroupIndex(spec, random, &upload);
        break;
      case Section::kScales:
        FillScales(spec.format == WireFormat::kTernary ? ScaleType::kFloat32
                                                       : spec.scale_type,
                   random, &bytes);
        break;
      case Section::kZeros:
        if (spec.int4_layout == Int4Layout::kPlain) {
          for (uint8_t& zero : bytes) zero &= 15;
        }
        break;
      case Section::kCodes:
        FillCodes(spec, random, &bytes);
        break;
    }
  }
  return upload;
}

}  // namespace qgemm
