// SPDX-License-Identifier: Apache-2.0
//
// A function fills the message of each format.

#include "client/weights_wire.h"

#include <algorithm>
#include <cstdint>

#include "client/gemm_wire.h"

namespace qgemm {
namespace {

v1::ScaleType ToWire(ScaleType type) {
  switch (type) {
    case ScaleType::kE4m4:
      return v1::SCALE_TYPE_E4M4;
    case ScaleType::kFloat16:
      return v1::SCALE_TYPE_FP16;
    case ScaleType::kBFloat16:
      return v1::SCALE_TYPE_BF16;
    case ScaleType::kFloat32:
      return v1::SCALE_TYPE_FP32;
  }
  return v1::SCALE_TYPE_UNSPECIFIED;
}

void FillKbit(const WeightsSpec& spec, v1::KbitFormat* kbit) {
  kbit->set_bits(spec.bits);
  kbit->set_layout(spec.kbit_layout == KbitLayout::kTiled
                       ? v1::KbitFormat::LAYOUT_TILED
                       : v1::KbitFormat::LAYOUT_FLAT);
  kbit->set_absmax_type(ToWire(spec.scale_type));
  kbit->set_has_codebook(spec.has_codebook);
}

void FillTernary(const WeightsSpec& spec, v1::TernaryFormat* ternary) {
  switch (spec.ternary_coding) {
    case TernaryCoding::kInt8:
      ternary->set_coding(v1::TernaryFormat::CODING_INT8);
      break;
    case TernaryCoding::kPacked012:
      ternary->set_coding(v1::TernaryFormat::CODING_PACKED_012);
      break;
    case TernaryCoding::kPacked123:
      ternary->set_coding(v1::TernaryFormat::CODING_PACKED_123);
      break;
  }
  ternary->set_tensor_wide_scale(spec.tensor_wide_scale);
}

v1::Int4Format::Layout ToWire(Int4Layout layout) {
  switch (layout) {
    case Int4Layout::kPlain:
      return v1::Int4Format::LAYOUT_PLAIN;
    case Int4Layout::kGptqV1:
      return v1::Int4Format::LAYOUT_GPTQ_V1;
    case Int4Layout::kGptqV2:
      return v1::Int4Format::LAYOUT_GPTQ_V2;
    case Int4Layout::kAwq:
      return v1::Int4Format::LAYOUT_AWQ;
  }
  return v1::Int4Format::LAYOUT_UNSPECIFIED;
}

void FillInt4(const WeightsSpec& spec, v1::Int4Format* int4) {
  int4->set_layout(ToWire(spec.int4_layout));
  int4->set_group_size(static_cast<uint32_t>(spec.group_size));
  int4->set_scale_type(ToWire(spec.scale_type));
  int4->set_has_zeros(spec.has_zeros);
  int4->set_has_group_index(spec.has_group_index);
}

void FillDense(const WeightsSpec& spec, v1::DenseFormat* dense) {
  dense->set_type(ToWire(spec.dense_type));
  switch (spec.quantize_to) {
    case QuantizeTarget::kNone:
      dense->set_resident_type(ToWire(spec.resident_type));
      break;
    case QuantizeTarget::kKbit:
      dense->mutable_quantize_kbit()->set_bits(spec.bits);
      break;
    case QuantizeTarget::kQ4_0:
      dense->mutable_quantize_q4_0();
      break;
    case QuantizeTarget::kTernary:
      dense->mutable_quantize_ternary();
      break;
    case QuantizeTarget::kInt4: {
      v1::Int4Format* const int4 = dense->mutable_quantize_int4();
      int4->set_group_size(static_cast<uint32_t>(spec.group_size));
      int4->set_has_zeros(spec.has_zeros);
      break;
    }
  }
}

}  // namespace

v1::WeightsHeader ToWire(const WeightsSpec& spec) {
  v1::WeightsHeader header;
  header.set_n(spec.n);
  header.set_k(spec.k);
  header.set_has_bias(spec.has_bias);
  header.set_total_bytes(TotalBytes(spec));
  switch (spec.format) {
    case WireFormat::kKbit:
      FillKbit(spec, header.mutable_kbit());
      break;
    case WireFormat::kQ4_0:
      header.mutable_q4_0();
      break;
    case WireFormat::kTernary:
      FillTernary(spec, header.mutable_ternary());
      break;
    case WireFormat::kInt4:
      FillInt4(spec, header.mutable_int4());
      break;
    case WireFormat::kDense:
      FillDense(spec, header.mutable_dense());
      break;
  }
  return header;
}

v1::Section ToWire(Section section) {
  switch (section) {
    case Section::kCodebook:
      return v1::SECTION_CODEBOOK;
    case Section::kGroupIndex:
      return v1::SECTION_GROUP_INDEX;
    case Section::kBias:
      return v1::SECTION_BIAS;
    case Section::kScales:
      return v1::SECTION_SCALES;
    case Section::kZeros:
      return v1::SECTION_ZEROS;
    case Section::kCodes:
      return v1::SECTION_CODES;
  }
  return v1::SECTION_UNSPECIFIED;
}

WeightsInfo FromWire(const v1::WeightsInfo& info) {
  WeightsInfo weights;
  weights.id = info.id();
  weights.names.assign(info.names().begin(), info.names().end());
  // Servers without the count send all names.
  weights.name_count = std::max<int64_t>(info.name_count(), info.names_size());
  weights.n = info.n();
  weights.k = info.k();
  weights.format = info.format();
  weights.resident_bytes = info.resident_bytes();
  weights.uploaded_bytes = info.uploaded_bytes();
  weights.has_bias = info.has_bias();
  weights.spec = info.spec();
  return weights;
}

ServerInfo FromWire(const v1::GetServerInfoResponse& response) {
  ServerInfo server;
  server.version = response.version();
  server.backend = response.backend();
  server.device = response.device();
  server.device_detail = response.device_detail();
  server.parallelism = response.parallelism();
  server.max_message_bytes = response.max_message_bytes();
  server.max_stream_operand_bytes = response.max_stream_operand_bytes();
  server.max_n = response.max_n();
  server.max_k = response.max_k();
  server.max_m = response.max_m();
  server.weights_bytes = response.weights_bytes();
  server.weights_budget_bytes = response.weights_budget_bytes();
  server.formats.assign(response.formats().begin(), response.formats().end());
  server.program_revision = response.program_revision();
  server.programs = response.programs();
  server.uptime = absl::Nanoseconds(static_cast<int64_t>(response.uptime_ns()));
  server.process_cpu =
      absl::Nanoseconds(static_cast<int64_t>(response.process_cpu_ns()));
  return server;
}

}  // namespace qgemm
