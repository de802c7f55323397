// SPDX-License-Identifier: Apache-2.0
//
// Layers have a ragged edge on each side of a tile, and groups of each size.

#include "server/keep/layout_key.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "kernels/formats/weights_decoder.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/layer_images.h"
#include "kernels/matrix/types.h"
#include "kernels/matrix/weights.h"

namespace qgemm {
namespace {

constexpr int64_t kRows = 136;
constexpr int64_t kColumns = 416;

WeightsHeader QuantizedLayer(int bits, int64_t group_size, ScaleType scales) {
  WeightsHeader header;
  header.n = kRows;
  header.k = kColumns;
  header.bits = bits;
  header.group_size = group_size;
  header.scale_type = scales;
  for (int code = 0; code < 1 << bits; ++code) {
    header.codebook.push_back(static_cast<float>(code * 3 - 5));
  }
  return header;
}

WeightsHeader TernaryLayer() {
  WeightsHeader header = QuantizedLayer(2, kColumns, ScaleType::kFloat32);
  header.codebook = {-1, 0, 1, 0};
  header.integer_codes = true;
  return header;
}

WeightsHeader DenseLayer(FloatType type) {
  WeightsHeader header;
  header.kind = WeightsHeader::Kind::kDense;
  header.n = kRows;
  header.k = kColumns;
  header.dense_type = type;
  header.bias.assign(kRows, 0.5f);
  return header;
}

std::vector<WeightsHeader> GoldenLayers() {
  std::vector<WeightsHeader> layers = {TernaryLayer(),
                                       DenseLayer(FloatType::kFloat16),
                                       DenseLayer(FloatType::kBFloat16)};
  const ScaleType scales[] = {ScaleType::kE4m4, ScaleType::kFloat16,
                              ScaleType::kBFloat16, ScaleType::kFloat32};
  const int64_t group_sizes[] = {32, 64, 128, kColumns};
  for (int i = 0; i < 16; ++i) {
    layers.push_back(
        QuantizedLayer(2 + i % 4, group_sizes[i / 4], scales[(i + i / 4) % 4]));
    layers.back().has_zeros = i % 3 == 0;
    layers.back().supports_a8 = i % 5 == 0;
    if (i % 2 == 1) layers.back().bias.assign(kRows, -2.0f);
    if (i % 7 != 2) continue;
    for (int k = kColumns - 1; k >= 0; --k) {
      layers.back().permutation.push_back(k);
    }
  }
  return layers;
}

// The same bytes every time, each at most `most`.
std::vector<uint8_t> GoldenBytes(int64_t count, uint8_t most) {
  std::vector<uint8_t> bytes(count);
  uint32_t state = 12345;
  for (uint8_t& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<uint8_t>((state >> 16) % (most + 1u));
  }
  return bytes;
}

absl::Status WritePanels(const WeightsHeader& header, WeightsSink* sink) {
  if (header.kind == WeightsHeader::Kind::kDense) {
    const auto bytes =
        GoldenBytes(kRows * kColumns * SizeOf(header.dense_type), 0x3f);
    return sink->WriteDense({0, kRows, bytes});
  }
  const uint8_t most_code = static_cast<uint8_t>((1 << header.bits) - 1);
  const auto codes = GoldenBytes(kRows * kColumns, most_code);
  RETURN_IF_ERROR(sink->WriteCodes({0, kRows, 0, kColumns, codes}));
  const int64_t groups = header.groups_per_row();
  // No byte makes an infinity of a scale, of whatever type.
  const auto scales =
      GoldenBytes(kRows * groups * SizeOf(header.scale_type), 0x3f);
  RETURN_IF_ERROR(sink->WriteScales({0, kRows, 0, groups, scales}));
  if (header.has_zeros) {
    const auto zeros = GoldenBytes(kRows * groups, 16);
    RETURN_IF_ERROR(sink->WriteZeros({0, kRows, 0, groups, zeros}));
  }
  return sink->SetTensorScale(0.25f);
}

WeightsSpec Spec(WireFormat format) {
  WeightsSpec spec;
  spec.format = format;
  spec.n = 128;
  spec.k = 256;
  return spec;
}

std::vector<WeightsSpec> GoldenSpecs() {
  std::vector<WeightsSpec> specs;
  for (int bits = 2; bits <= 5; ++bits) {
    specs.push_back(Spec(WireFormat::kKbit));
    specs.back().bits = bits;
    specs.back().scale_type =
        bits % 2 == 0 ? ScaleType::kE4m4 : ScaleType::kFloat32;
    if (bits == 4) specs.back().kbit_layout = KbitLayout::kTiled;
    specs.back().has_codebook = bits == 5;
  }
  specs.push_back(Spec(WireFormat::kQ4_0));
  for (const TernaryCoding coding :
       {TernaryCoding::kInt8, TernaryCoding::kPacked012}) {
    specs.push_back(Spec(WireFormat::kTernary));
    specs.back().ternary_coding = coding;
  }
  for (const Int4Layout layout : {Int4Layout::kPlain, Int4Layout::kGptqV1,
                                  Int4Layout::kGptqV2, Int4Layout::kAwq}) {
    specs.push_back(Spec(WireFormat::kInt4));
    specs.back().int4_layout = layout;
    specs.back().group_size = 128;
    specs.back().has_zeros = layout == Int4Layout::kPlain;
  }
  for (const QuantizeTarget target :
       {QuantizeTarget::kNone, QuantizeTarget::kKbit, QuantizeTarget::kQ4_0,
        QuantizeTarget::kInt4, QuantizeTarget::kTernary}) {
    specs.push_back(Spec(WireFormat::kDense));
    specs.back().dense_type = FloatType::kFloat32;
    specs.back().quantize_to = target;
    specs.back().has_bias = target == QuantizeTarget::kNone;
    if (target == QuantizeTarget::kKbit) specs.back().bits = 3;
    if (target == QuantizeTarget::kInt4) specs.back().group_size = 32;
  }
  return specs;
}

// Bytes that the section may have: floats are finite and positive.
std::vector<uint8_t> SectionBytes(const WeightsSpec& spec,
                                  const SectionSize& section) {
  const bool is_nibbles =
      spec.format == WireFormat::kKbit || spec.format == WireFormat::kInt4;
  const bool is_code = section.section == Section::kCodes;
  if (is_code && spec.format == WireFormat::kTernary) {
    return GoldenBytes(section.bytes, 1);
  }
  if (section.section == Section::kZeros) {
    return GoldenBytes(section.bytes, 15);
  }
  return GoldenBytes(section.bytes, is_code && is_nibbles ? 0xff : 0x3f);
}

absl::Status WriteDecoded(const WeightsSpec& spec, WeightsSink* sink) {
  const auto decoder = NewWeightsDecoder(spec, sink);
  for (const SectionSize& section : SectionsOf(spec)) {
    RETURN_IF_ERROR(
        decoder->Append(section.section, SectionBytes(spec, section)));
  }
  return decoder->Finish().status();
}

// Adds what the backend makes of a layer that `write` writes; nothing if it
// offers none such.
absl::Status AddLayer(Backend* backend,
                      absl::FunctionRef<absl::Status(WeightsSink*)> write,
                      Sha256* hash) {
  ASSIGN_OR_RETURN(const auto builder, backend->NewBuilder());
  const absl::Status written = write(builder.get());
  std::string bytes;
  if (written.ok()) {
    ASSIGN_OR_RETURN(const auto resident, builder->Finish());
    ASSIGN_OR_RETURN(const LayerImage image,
                     backend->images()->Describe(*resident));
    AppendInteger<int64_t>(image.size_bytes, &bytes);
    AppendInteger<uint64_t>(image.checksum, &bytes);
    bytes += image.detail;
  } else if (!absl::IsUnimplemented(written)) {
    return written;
  }
  std::string size;
  AppendInteger<uint64_t>(bytes.size(), &size);
  hash->Update(size + bytes);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Sha256Digest> LayoutKeyOf(Backend* backend) {
  Sha256 hash;
  hash.Update(absl::StrCat(kVersion, "\n", backend->describe().name, "\n"));
  for (const WeightsHeader& header : GoldenLayers()) {
    const auto write = [&header](WeightsSink* sink) {
      const absl::Status begun = sink->Begin(header);
      return begun.ok() ? WritePanels(header, sink) : begun;
    };
    RETURN_IF_ERROR(AddLayer(backend, write, &hash));
  }
  for (const WeightsSpec& spec : GoldenSpecs()) {
    const auto write = [&spec](WeightsSink* sink) {
      return WriteDecoded(spec, sink);
    };
    RETURN_IF_ERROR(AddLayer(backend, write, &hash));
  }
  return hash.Finish();
}

}  // namespace qgemm
