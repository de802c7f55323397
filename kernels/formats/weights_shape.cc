// SPDX-License-Identifier: Apache-2.0
//
// Consequences of a valid spec: its sections with their byte counts, and the
// header of its canonical form.

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "kernels/formats/codebooks.h"
#include "kernels/formats/weights_spec.h"

namespace qgemm {
namespace {

constexpr int64_t kBlock = 32;        // kbit and Q4_0
constexpr int64_t kQ4_0Bytes = 18;    // of a block
constexpr int64_t kTileColumns = 64;  // of kbit's tiled layout

int64_t GroupsPerRow(const WeightsSpec& spec) {
  return spec.group_size == 0 ? 1 : CeilDiv(spec.k, spec.group_size);
}

// Columns that codes and scales are stored for.
int64_t KbitColumns(const WeightsSpec& spec) {
  return spec.kbit_layout == KbitLayout::kTiled ? RoundUp(spec.k, kTileColumns)
                                                : spec.k;
}

int64_t ScalesBytes(const WeightsSpec& spec) {
  switch (spec.format) {
    case WireFormat::kKbit:
      return spec.n * (KbitColumns(spec) / kBlock) * SizeOf(spec.scale_type);
    case WireFormat::kTernary:
      return (spec.tensor_wide_scale ? 1 : spec.n) *
             SizeOf(ScaleType::kFloat32);
    case WireFormat::kInt4:
      return spec.n * GroupsPerRow(spec) * SizeOf(spec.scale_type);
    case WireFormat::kQ4_0:
    case WireFormat::kDense:
      return 0;
  }
  return 0;
}

int64_t ZerosBytes(const WeightsSpec& spec) {
  if (spec.format != WireFormat::kInt4) return 0;
  if (spec.int4_layout == Int4Layout::kPlain) {
    return spec.has_zeros ? spec.n * GroupsPerRow(spec) : 0;
  }
  return spec.n / 2 * GroupsPerRow(spec);  // four bits each
}

int64_t CodesBytes(const WeightsSpec& spec) {
  switch (spec.format) {
    case WireFormat::kKbit:
      return spec.n * (KbitColumns(spec) / kBlock) * spec.bits * 4;
    case WireFormat::kQ4_0:
      return spec.n * (spec.k / kBlock) * kQ4_0Bytes;
    case WireFormat::kTernary:
      return spec.n * (spec.ternary_coding == TernaryCoding::kInt8
                           ? spec.k
                           : CeilDiv(spec.k, 4));
    case WireFormat::kInt4:
      return spec.n * CeilDiv(spec.k, 2);
    case WireFormat::kDense:
      return spec.n * spec.k * SizeOf(spec.dense_type);
  }
  return 0;
}

void ShapeKbit(const WeightsSpec& spec, WeightsHeader* header) {
  header->bits = spec.bits;
  header->codebook = DefaultKbitCodebook(spec.bits);
  header->group_size = kBlock;
  header->scale_type = ScaleType::kE4m4;
}

void ShapeQ4_0(WeightsHeader* header) {
  header->bits = 4;
  header->codebook = LinearCodebook16(-8);
  header->group_size = kBlock;
  header->scale_type = ScaleType::kFloat16;
  header->integer_codes = true;
  header->supports_a8 = true;
}

void ShapeTernary(const WeightsSpec& spec, WeightsHeader* header) {
  header->bits = 2;
  header->codebook = {-1.0f, 0.0f, 1.0f, 0.0f};  // the last is never used
  header->group_size = spec.k;
  header->scale_type = ScaleType::kFloat32;
  header->integer_codes = true;
}

void ShapeInt4(const WeightsSpec& spec, WeightsHeader* header) {
  header->bits = 4;
  header->has_zeros = spec.has_zeros || spec.int4_layout != Int4Layout::kPlain;
  header->codebook = LinearCodebook16(header->has_zeros ? 0 : -8);
  header->group_size = spec.group_size == 0 ? spec.k : spec.group_size;
  header->scale_type = spec.scale_type;
  header->integer_codes = true;
  if (spec.has_group_index) header->permutation.resize(spec.k);
}

// The resident form, uploaded as such or quantized by the server.
QuantizeTarget Resident(const WeightsSpec& spec) {
  switch (spec.format) {
    case WireFormat::kKbit:
      return QuantizeTarget::kKbit;
    case WireFormat::kQ4_0:
      return QuantizeTarget::kQ4_0;
    case WireFormat::kTernary:
      return QuantizeTarget::kTernary;
    case WireFormat::kInt4:
      return QuantizeTarget::kInt4;
    case WireFormat::kDense:
      return spec.quantize_to;
  }
  return QuantizeTarget::kNone;
}

}  // namespace

std::vector<SectionSize> SectionsOf(const WeightsSpec& spec) {
  const int64_t codebook = spec.has_codebook ? int64_t{4} << spec.bits : 0;
  const SectionSize all[] = {
      {Section::kCodebook, codebook},
      {Section::kGroupIndex, spec.has_group_index ? spec.k * 4 : 0},
      {Section::kBias, spec.has_bias ? spec.n * 4 : 0},
      {Section::kScales, ScalesBytes(spec)},
      {Section::kZeros, ZerosBytes(spec)},
      {Section::kCodes, CodesBytes(spec)},
  };
  std::vector<SectionSize> sections;
  for (const SectionSize& section : all) {
    if (section.bytes > 0) sections.push_back(section);
  }
  return sections;
}

int64_t TotalBytes(const WeightsSpec& spec) {
  int64_t total = 0;
  for (const SectionSize& section : SectionsOf(spec)) total += section.bytes;
  return total;
}

WeightsShape ShapeOf(const WeightsSpec& spec) { return HeaderOf(spec); }

WeightsHeader HeaderOf(const WeightsSpec& spec) {
  WeightsHeader header;
  header.n = spec.n;
  header.k = spec.k;
  if (spec.has_bias) header.bias.resize(spec.n);
  switch (Resident(spec)) {
    case QuantizeTarget::kNone:
      header.kind = WeightsHeader::Kind::kDense;
      header.dense_type = spec.resident_type;
      break;
    case QuantizeTarget::kKbit:
      ShapeKbit(spec, &header);
      break;
    case QuantizeTarget::kQ4_0:
      ShapeQ4_0(&header);
      break;
    case QuantizeTarget::kInt4:
      ShapeInt4(spec, &header);
      break;
    case QuantizeTarget::kTernary:
      ShapeTernary(spec, &header);
      break;
  }
  return header;
}

std::string ResidentFormatName(const WeightsSpec& spec) {
  switch (Resident(spec)) {
    case QuantizeTarget::kNone:
      return "dense";
    case QuantizeTarget::kKbit:
      return absl::StrCat("kbit", spec.bits);
    default:
      return std::string(Name(Resident(spec)));
  }
}

}  // namespace qgemm
