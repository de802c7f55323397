// SPDX-License-Identifier: Apache-2.0
//
// Headers and chunks of uploads. A message becomes a spec without loss here;
// Validate in kernels/formats judges combinations of fields.

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/rpc/translate.h"

namespace qgemm {
namespace {

constexpr int64_t kMaxCount = std::numeric_limits<int64_t>::max();

absl::Status NotInEnum(absl::string_view field, int value,
                       absl::string_view known) {
  return absl::InvalidArgumentError(absl::StrCat(
      field, " = ", value, " is not known; it must be one of ", known));
}

absl::StatusOr<ScaleType> ToScaleType(absl::string_view field,
                                      v1::ScaleType type,
                                      ScaleType default_type) {
  switch (type) {
    case v1::SCALE_TYPE_UNSPECIFIED:
      return default_type;
    case v1::SCALE_TYPE_E4M4:
      return ScaleType::kE4m4;
    case v1::SCALE_TYPE_FP16:
      return ScaleType::kFloat16;
    case v1::SCALE_TYPE_BF16:
      return ScaleType::kBFloat16;
    case v1::SCALE_TYPE_FP32:
      return ScaleType::kFloat32;
    default:
      return NotInEnum(field, type, "E4M4 (1), FP16 (2), BF16 (3), FP32 (4)");
  }
}

absl::StatusOr<int> ToBits(absl::string_view field, uint32_t bits) {
  if (bits < 2 || bits > 5) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " = ", bits, " is not 2, 3, 4 or 5"));
  }
  return static_cast<int>(bits);
}

absl::Status FromKbit(const v1::KbitFormat& format, WeightsSpec* spec) {
  ASSIGN_OR_RETURN(spec->bits, ToBits("kbit.bits", format.bits()));
  switch (format.layout()) {
    case v1::KbitFormat::LAYOUT_UNSPECIFIED:
    case v1::KbitFormat::LAYOUT_FLAT:
      spec->kbit_layout = KbitLayout::kFlat;
      break;
    case v1::KbitFormat::LAYOUT_TILED:
      spec->kbit_layout = KbitLayout::kTiled;
      break;
    default:
      return NotInEnum("kbit.layout", format.layout(), "FLAT (1), TILED (2)");
  }
  ASSIGN_OR_RETURN(
      spec->scale_type,
      ToScaleType("kbit.absmax_type", format.absmax_type(), ScaleType::kE4m4));
  spec->has_codebook = format.has_codebook();
  return absl::OkStatus();
}

absl::Status FromTernary(const v1::TernaryFormat& format, WeightsSpec* spec) {
  switch (format.coding()) {
    case v1::TernaryFormat::CODING_UNSPECIFIED:
    case v1::TernaryFormat::CODING_INT8:
      spec->ternary_coding = TernaryCoding::kInt8;
      break;
    case v1::TernaryFormat::CODING_PACKED_012:
      spec->ternary_coding = TernaryCoding::kPacked012;
      break;
    case v1::TernaryFormat::CODING_PACKED_123:
      spec->ternary_coding = TernaryCoding::kPacked123;
      break;
    default:
      return NotInEnum("ternary.coding", format.coding(),
                       "INT8 (1), PACKED_012 (2), PACKED_123 (3)");
  }
  spec->tensor_wide_scale = format.tensor_wide_scale();
  return absl::OkStatus();
}

absl::StatusOr<Int4Layout> ToInt4Layout(v1::Int4Format::Layout layout) {
  switch (layout) {
    case v1::Int4Format::LAYOUT_UNSPECIFIED:
    case v1::Int4Format::LAYOUT_PLAIN:
      return Int4Layout::kPlain;
    case v1::Int4Format::LAYOUT_GPTQ_V1:
      return Int4Layout::kGptqV1;
    case v1::Int4Format::LAYOUT_GPTQ_V2:
      return Int4Layout::kGptqV2;
    case v1::Int4Format::LAYOUT_AWQ:
      return Int4Layout::kAwq;
    default:
      return NotInEnum("int4.layout", layout,
                       "PLAIN (1), GPTQ_V1 (2), GPTQ_V2 (3), AWQ (4)");
  }
}

absl::Status FromInt4(const v1::Int4Format& format, WeightsSpec* spec) {
  ASSIGN_OR_RETURN(spec->int4_layout, ToInt4Layout(format.layout()));
  spec->group_size = format.group_size();
  ASSIGN_OR_RETURN(
      spec->scale_type,
      ToScaleType("int4.scale_type", format.scale_type(), ScaleType::kFloat16));
  spec->has_zeros = format.has_zeros();
  spec->has_group_index = format.has_group_index();
  return absl::OkStatus();
}

// The server quantizes to E4M4 absmax always; the spec says nothing of it then.
absl::Status FromQuantizeKbit(const v1::KbitFormat& format, WeightsSpec* spec) {
  if (format.layout() != v1::KbitFormat::LAYOUT_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        "dense.quantize_kbit.layout is set; it is a property of kbit uploads");
  }
  spec->quantize_to = QuantizeTarget::kKbit;
  RETURN_IF_ERROR(FromKbit(format, spec));
  if (spec->scale_type != ScaleType::kE4m4) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dense.quantize_kbit.absmax_type = ", Name(spec->scale_type),
        "; the server quantizes to e4m4"));
  }
  spec->scale_type = WeightsSpec().scale_type;
  return absl::OkStatus();
}

absl::Status FromQuantizeTernary(const v1::TernaryFormat& format,
                                 WeightsSpec* spec) {
  if (format.coding() != v1::TernaryFormat::CODING_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        "dense.quantize_ternary.coding is set; it is a property of ternary "
        "uploads");
  }
  spec->quantize_to = QuantizeTarget::kTernary;
  return FromTernary(format, spec);
}

absl::Status FromResidentType(const v1::DenseFormat& format,
                              WeightsSpec* spec) {
  spec->resident_type = spec->dense_type == FloatType::kFloat32
                            ? FloatType::kBFloat16
                            : spec->dense_type;
  if (format.resident_type() == v1::FLOAT_TYPE_UNSPECIFIED) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(spec->resident_type,
                   ToFloatType("dense.resident_type", format.resident_type()));
  return absl::OkStatus();
}

absl::Status FromDense(const v1::DenseFormat& format, WeightsSpec* spec) {
  ASSIGN_OR_RETURN(spec->dense_type, ToFloatType("dense.type", format.type()));
  switch (format.target_case()) {
    case v1::DenseFormat::kQuantizeKbit:
      return FromQuantizeKbit(format.quantize_kbit(), spec);
    case v1::DenseFormat::kQuantizeQ40:
      spec->quantize_to = QuantizeTarget::kQ4_0;
      return absl::OkStatus();
    case v1::DenseFormat::kQuantizeTernary:
      return FromQuantizeTernary(format.quantize_ternary(), spec);
    case v1::DenseFormat::kQuantizeInt4:
      spec->quantize_to = QuantizeTarget::kInt4;
      return FromInt4(format.quantize_int4(), spec);
    case v1::DenseFormat::kResidentType:
    case v1::DenseFormat::TARGET_NOT_SET:
      return FromResidentType(format, spec);
  }
  return absl::InvalidArgumentError(
      "dense.target is not known; set quantize_kbit, quantize_q4_0, "
      "quantize_ternary, quantize_int4, resident_type or none");
}

absl::Status FromFormat(const v1::WeightsHeader& header, WeightsSpec* spec) {
  switch (header.format_case()) {
    case v1::WeightsHeader::kKbit:
      spec->format = WireFormat::kKbit;
      return FromKbit(header.kbit(), spec);
    case v1::WeightsHeader::kQ40:
      spec->format = WireFormat::kQ4_0;
      return absl::OkStatus();
    case v1::WeightsHeader::kTernary:
      spec->format = WireFormat::kTernary;
      return FromTernary(header.ternary(), spec);
    case v1::WeightsHeader::kInt4:
      spec->format = WireFormat::kInt4;
      return FromInt4(header.int4(), spec);
    case v1::WeightsHeader::kDense:
      spec->format = WireFormat::kDense;
      return FromDense(header.dense(), spec);
    case v1::WeightsHeader::FORMAT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "header.format is not set; it must be kbit, q4_0, ternary, int4 or "
      "dense");
}

absl::StatusOr<Section> ToSection(v1::Section section) {
  switch (section) {
    case v1::SECTION_CODEBOOK:
      return Section::kCodebook;
    case v1::SECTION_GROUP_INDEX:
      return Section::kGroupIndex;
    case v1::SECTION_BIAS:
      return Section::kBias;
    case v1::SECTION_SCALES:
      return Section::kScales;
    case v1::SECTION_ZEROS:
      return Section::kZeros;
    case v1::SECTION_CODES:
      return Section::kCodes;
    default:
      return NotInEnum("chunk.section", section,
                       "CODEBOOK (1), GROUP_INDEX (2), BIAS (3), SCALES (4), "
                       "ZEROS (5), CODES (6)");
  }
}

}  // namespace

absl::StatusOr<UploadHeader> ToUploadHeader(const v1::WeightsHeader& header,
                                            const WeightsLimits& limits) {
  UploadHeader upload;
  upload.binding = {header.name(), header.create_only(), header.if_match()};
  ASSIGN_OR_RETURN(upload.spec.n, CountFromWire("n", header.n(), limits.max_n));
  ASSIGN_OR_RETURN(upload.spec.k, CountFromWire("k", header.k(), limits.max_k));
  upload.spec.has_bias = header.has_bias();
  RETURN_IF_ERROR(FromFormat(header, &upload.spec));
  if (header.has_total_bytes()) {
    ASSIGN_OR_RETURN(
        upload.total_bytes,
        CountFromWire("total_bytes", header.total_bytes(), kMaxCount));
  }
  if (header.has_resume_bytes()) {
    ASSIGN_OR_RETURN(
        upload.resume_bytes,
        CountFromWire("resume_bytes", header.resume_bytes(), kMaxCount));
    if (header.sha256().empty()) {
      return absl::InvalidArgumentError(
          "resume_bytes is set, and sha256 is not, which says what upload is "
          "to be continued");
    }
  }
  if (header.sha256().empty()) return upload;
  upload.expected_id.emplace();
  if (header.sha256().size() != upload.expected_id->size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("sha256 has ", header.sha256().size(),
                     " bytes; a SHA-256 has ", upload.expected_id->size()));
  }
  std::memcpy(upload.expected_id->data(), header.sha256().data(),
              upload.expected_id->size());
  return upload;
}

absl::StatusOr<UploadChunk> ToUploadChunk(const v1::WeightsChunk& chunk) {
  UploadChunk upload;
  ASSIGN_OR_RETURN(upload.section, ToSection(chunk.section()));
  ASSIGN_OR_RETURN(upload.offset,
                   CountFromWire("chunk.offset", chunk.offset(), kMaxCount));
  if (chunk.has_crc32c()) upload.crc32c = chunk.crc32c();
  upload.bytes = chunk.bytes();
  return upload;
}

}  // namespace qgemm
