// SPDX-License-Identifier: Apache-2.0

#include "client/wire.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/payload_message.h"

namespace qgemm {
namespace {

v1::FloatType ToWire(FloatType type) {
  switch (type) {
    case FloatType::kFloat32:
      return v1::FLOAT_TYPE_FP32;
    case FloatType::kFloat16:
      return v1::FLOAT_TYPE_FP16;
    case FloatType::kBFloat16:
      return v1::FLOAT_TYPE_BF16;
  }
  return v1::FLOAT_TYPE_UNSPECIFIED;
}

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

v1::Priority ToWire(RequestPriority priority) {
  switch (priority) {
    case RequestPriority::kLow:
      return v1::PRIORITY_LOW;
    case RequestPriority::kNormal:
      return v1::PRIORITY_NORMAL;
    case RequestPriority::kHigh:
      return v1::PRIORITY_HIGH;
  }
  return v1::PRIORITY_UNSPECIFIED;
}

v1::ComputeMode ToWire(ComputeMode mode) {
  switch (mode) {
    case ComputeMode::kA16:
      return v1::COMPUTE_MODE_A16;
    case ComputeMode::kA8:
      return v1::COMPUTE_MODE_A8;
    case ComputeMode::kA32:
      return v1::COMPUTE_MODE_A32;
  }
  return v1::COMPUTE_MODE_UNSPECIFIED;
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

absl::Duration FromNanoseconds(uint64_t nanoseconds) {
  return absl::Nanoseconds(static_cast<int64_t>(nanoseconds));
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

std::string PayloadPrefix(uint64_t bytes) {
  constexpr int kLengthDelimited = 2;
  std::string prefix(1, static_cast<char>(v1::GemmRequest::kAFieldNumber << 3 |
                                          kLengthDelimited));
  for (; bytes >= 0x80; bytes >>= 7) {
    prefix.push_back(static_cast<char>(bytes | 0x80));
  }
  prefix.push_back(static_cast<char>(bytes));
  return prefix;
}

v1::GemmRequest HeaderToWire(const GemmOptions& options) {
  v1::GemmRequest request;
  request.set_weights(options.weights);
  request.set_m(options.m);
  request.set_a_type(ToWire(options.a_type));
  request.set_c_type(ToWire(options.c_type.value_or(options.a_type)));
  request.set_mode(ToWire(options.mode));
  if (options.mode == ComputeMode::kA16 &&
      options.a_type == FloatType::kFloat32) {
    request.set_rounding(ToWire(options.rounding));
  }
  if (options.priority != RequestPriority::kNormal) {
    request.set_priority(ToWire(options.priority));
  }
  request.set_client_id(options.client_id);
  return request;
}

grpc::Slice PrefixToWire(const GemmOptions& options) {
  return grpc::Slice(HeaderToWire(options).SerializeAsString() +
                     PayloadPrefix(options.a.size()));
}

grpc::Slice ClientIdToWire(const std::string& client_id) {
  v1::GemmRequest request;
  request.set_client_id(client_id);
  return grpc::Slice(request.SerializeAsString());
}

grpc::Slice OperandToWire(const GemmOptions& options) {
  if (options.a_released == nullptr) {
    return grpc::Slice(options.a.data(), options.a.size());
  }
  return BorrowedSlice(options.a, options.a_released);
}

grpc::ByteBuffer ToWire(const GemmOptions& options,
                        const grpc::Slice& operand) {
  const grpc::Slice slices[2] = {PrefixToWire(options), operand};
  return grpc::ByteBuffer(slices, 2);
}

WeightsDescription FromWire(const v1::WeightsInfo& info) {
  WeightsDescription weights;
  weights.id = info.id();
  weights.names.assign(info.names().begin(), info.names().end());
  weights.n = info.n();
  weights.k = info.k();
  weights.format = info.format();
  weights.resident_bytes = info.resident_bytes();
  weights.uploaded_bytes = info.uploaded_bytes();
  weights.has_bias = info.has_bias();
  weights.spec = info.spec();
  return weights;
}

ServerDescription FromWire(const v1::GetServerInfoResponse& response) {
  ServerDescription server;
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
  server.uptime =
      absl::Seconds(static_cast<int64_t>(response.uptime_seconds()));
  server.process_cpu =
      absl::Microseconds(static_cast<int64_t>(response.process_cpu_us()));
  return server;
}

ServerTimings FromWire(const v1::Timings& timings) {
  ServerTimings result;
  result.queue = FromNanoseconds(timings.queue_ns());
  result.host_to_device = FromNanoseconds(timings.host_to_device_ns());
  result.kernel = FromNanoseconds(timings.kernel_ns());
  result.device_to_host = FromNanoseconds(timings.device_to_host_ns());
  result.total = FromNanoseconds(timings.total_ns());
  result.launch_rows = timings.launch_rows();
  result.launch_requests = timings.launch_requests();
  return result;
}

absl::StatusOr<GemmResult> ResultOfSize(int64_t c_bytes, int64_t m,
                                        FloatType c_type) {
  const int64_t column_bytes = m * SizeOf(c_type);
  if (c_bytes <= 0 || c_bytes % column_bytes != 0) {
    return absl::InternalError(absl::StrCat(
        "the server answered ", c_bytes, " bytes for ", m, " rows of ",
        Name(c_type), ", which is no whole number of columns"));
  }
  GemmResult result;
  result.c_type = c_type;
  result.m = m;
  result.n = c_bytes / column_bytes;
  return result;
}

}  // namespace qgemm
