// SPDX-License-Identifier: Apache-2.0
//
// C is copied here once, out of the buffers that gRPC received.

#include "client/gemm_wire.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "rpc/payload_message.h"

namespace qgemm {
namespace {

absl::Duration FromNanoseconds(uint64_t nanoseconds) {
  return absl::Nanoseconds(static_cast<int64_t>(nanoseconds));
}

}  // namespace

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

bool HasRounding(const GemmRequest& request) {
  return request.mode == ComputeMode::kA16 &&
         request.a_type == FloatType::kFloat32;
}

absl::Status CheckOperand(const GemmRequest& request) {
  if (request.m < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("m is ", request.m, "; it must be 1 or more"));
  }
  const auto column_bytes = CheckedMul(request.m, SizeOf(request.a_type));
  const int64_t a_bytes = request.a.size();
  if (!column_bytes.has_value() || a_bytes == 0 ||
      a_bytes % *column_bytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a has ", a_bytes, " bytes for ", request.m, " rows of ",
                     Name(request.a_type), "; it must have m * k * ",
                     SizeOf(request.a_type), " bytes, with k of 1 or more"));
  }
  return absl::OkStatus();
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

v1::GemmRequest HeaderToWire(const GemmRequest& request) {
  v1::GemmRequest header;
  header.set_weights(request.weights);
  header.set_m(request.m);
  header.set_a_type(ToWire(request.a_type));
  header.set_c_type(ToWire(request.result_type()));
  header.set_mode(ToWire(request.mode));
  if (HasRounding(request)) {
    header.set_rounding(ToWire(request.rounding));
  }
  if (request.priority != RequestPriority::kNormal) {
    header.set_priority(ToWire(request.priority));
  }
  header.set_client_id(request.client_id);
  return header;
}

grpc::Slice PrefixToWire(const GemmRequest& request) {
  return grpc::Slice(HeaderToWire(request).SerializeAsString() +
                     PayloadPrefix(request.a.size()));
}

grpc::Slice ClientIdToWire(const std::string& client_id) {
  v1::GemmRequest request;
  request.set_client_id(client_id);
  return grpc::Slice(request.SerializeAsString());
}

grpc::Slice OperandToWire(const GemmRequest& request) {
  if (request.a_released == nullptr) {
    return grpc::Slice(request.a.data(), request.a.size());
  }
  return BorrowedSlice(request.a, request.a_released);
}

grpc::ByteBuffer ToWire(const GemmRequest& request,
                        const grpc::Slice& operand) {
  const grpc::Slice slices[2] = {PrefixToWire(request), operand};
  return grpc::ByteBuffer(slices, 2);
}

Timings FromWire(const v1::Timings& timings) {
  Timings result;
  result.queue = FromNanoseconds(timings.queue_ns());
  result.host_to_device = FromNanoseconds(timings.host_to_device_ns());
  result.kernel = FromNanoseconds(timings.kernel_ns());
  result.device_to_host = FromNanoseconds(timings.device_to_host_ns());
  result.total = FromNanoseconds(timings.total_ns());
  result.launch_rows = timings.launch_rows();
  result.launch_requests = timings.launch_requests();
  for (const uint64_t op_ns : timings.op_ns()) {
    result.ops.push_back(FromNanoseconds(op_ns));
  }
  return result;
}

absl::StatusOr<GemmResult> ResultOfSize(int64_t c_bytes,
                                        const ExpectedResult& expected) {
  const int64_t column_bytes = expected.m * SizeOf(expected.c_type);
  if (c_bytes <= 0 || c_bytes % column_bytes != 0) {
    return absl::InternalError(
        absl::StrCat("the server answered ", c_bytes, " bytes for ", expected.m,
                     " rows of ", Name(expected.c_type),
                     ", which is not a positive multiple of ", column_bytes));
  }
  const int64_t memory_bytes = expected.c.size();
  if (memory_bytes > 0 && memory_bytes != c_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "GemmRequest::c has ", memory_bytes, " bytes; C has ", expected.m,
        " rows of ", c_bytes / column_bytes, " ", Name(expected.c_type), ", ",
        c_bytes, " bytes: give that many, or none"));
  }
  GemmResult result;
  result.c_type = expected.c_type;
  result.m = expected.m;
  result.n = c_bytes / column_bytes;
  result.placed_c = expected.c;
  if (memory_bytes == 0) {
    result.c.reserve(std::min(c_bytes, kMaxReservedBytes));
  }
  return result;
}

void AppendPieces(absl::Span<const absl::string_view> pieces, int64_t offset,
                  const ExpectedResult& expected, GemmResult* result) {
  if (expected.c.empty()) {
    for (absl::string_view piece : pieces) {
      result->c.append(piece.data(), piece.size());
    }
    return;
  }
  uint8_t* to = expected.c.data() + offset;
  for (absl::string_view piece : pieces) {
    std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
}

absl::Status ReadAnswer(grpc::ByteBuffer* buffer, AnswerView* answer) {
  answer->message.Clear();
  ReceivedPayload payload;
  payload.pieces.swap(answer->c);
  const absl::Status read =
      ReadPayloadMessage(buffer, &answer->message, &payload);
  payload.pieces.swap(answer->c);
  if (!read.ok()) {
    answer->c.clear();
    answer->timings = Timings();
    return absl::InternalError("the server's answer does not parse");
  }
  answer->timings = FromWire(answer->message.timings());
  return absl::OkStatus();
}

absl::StatusOr<GemmResult> ReadResult(grpc::ByteBuffer* buffer,
                                      const ExpectedResult& expected) {
  AnswerView answer;
  RETURN_IF_ERROR(ReadAnswer(buffer, &answer));
  int64_t c_bytes = 0;
  for (absl::string_view piece : answer.c) c_bytes += piece.size();
  ASSIGN_OR_RETURN(GemmResult result, ResultOfSize(c_bytes, expected));
  AppendPieces(answer.c, 0, expected, &result);
  result.timings = answer.timings;
  return result;
}

}  // namespace qgemm
