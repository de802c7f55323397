// SPDX-License-Identifier: Apache-2.0
//
// The outputs are copied here once, out of the buffers that gRPC received.

#include "client/run_wire.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "client/gemm_wire.h"
#include "rpc/payload_message.h"

namespace qgemm {
namespace {

static_assert(v1::RunRequest::kInputsFieldNumber == kPayloadField &&
                  v1::GemmRequest::kAFieldNumber == kPayloadField,
              "PayloadPrefix serves both");

// Copies the pieces, one behind the other, into memory from `offset` on; it has
// room for them.
void Scatter(absl::Span<const absl::string_view> pieces, size_t offset,
             const std::vector<absl::Span<uint8_t>>& memory) {
  auto to = memory.begin();
  size_t filled = offset;  // of *to
  for (absl::string_view piece : pieces) {
    while (!piece.empty()) {
      if (filled >= to->size()) {
        filled -= to->size();
        ++to;
        continue;
      }
      const size_t bytes = std::min(piece.size(), to->size() - filled);
      std::memcpy(to->data() + filled, piece.data(), bytes);
      piece.remove_prefix(bytes);
      filled += bytes;
    }
  }
}

absl::Status CheckMemory(const ExpectedOutputs& expected,
                         int64_t output_bytes) {
  if (expected.outputs.empty()) return absl::OkStatus();
  int64_t memory_bytes = 0;
  for (const auto& memory : expected.outputs) memory_bytes += memory.size();
  if (memory_bytes == output_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "RunRequest::outputs have ", memory_bytes, " bytes; the outputs have ",
      expected.m, " rows of ", output_bytes / expected.m, ", ", output_bytes,
      " bytes: give that many, or none"));
}

}  // namespace

int64_t InputBytes(const RunRequest& request) {
  int64_t bytes = 0;
  for (const auto& input : request.inputs) bytes += input.size();
  return bytes;
}

absl::Status CheckInputs(const RunRequest& request) {
  if (request.m < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("m is ", request.m, "; it must be 1 or more"));
  }
  const int64_t bytes = InputBytes(request);
  if (bytes > 0 && bytes % request.m == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the inputs have ", bytes, " bytes for ", request.m,
      " rows; they must have m * width elements each, with m of 1 or more"));
}

v1::RunRequest HeaderToWire(const RunRequest& request) {
  v1::RunRequest header;
  header.set_program(request.program);
  header.set_m(request.m);
  header.set_time_ops(request.time_ops);
  if (request.priority != RequestPriority::kNormal) {
    header.set_priority(ToWire(request.priority));
  }
  header.set_client_id(request.client_id);
  return header;
}

std::vector<grpc::Slice> InputsToWire(const RunRequest& request) {
  std::vector<grpc::Slice> slices;
  if (request.inputs_released == nullptr) {
    for (const auto& input : request.inputs) {
      slices.emplace_back(input.data(), input.size());
    }
    return slices;
  }
  // Released with the last of the slices, or here if there is none.
  const std::shared_ptr<void> release(
      nullptr, [released = request.inputs_released](void*) { released(); });
  for (const auto& input : request.inputs) {
    slices.push_back(BorrowedSlice(input, [release] {}));
  }
  return slices;
}

grpc::ByteBuffer ToWire(const RunRequest& request,
                        const std::vector<grpc::Slice>& inputs) {
  std::vector<grpc::Slice> slices = {
      grpc::Slice(HeaderToWire(request).SerializeAsString() +
                  PayloadPrefix(InputBytes(request)))};
  slices.insert(slices.end(), inputs.begin(), inputs.end());
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::StatusOr<RunResult> ResultOfSize(int64_t output_bytes,
                                       const ExpectedOutputs& expected) {
  if (output_bytes <= 0 || output_bytes % expected.m != 0) {
    return absl::InternalError(absl::StrCat(
        "the server answered ", output_bytes, " bytes for ", expected.m,
        " rows, which is not a positive multiple of them"));
  }
  RETURN_IF_ERROR(CheckMemory(expected, output_bytes));
  RunResult result;
  result.m = expected.m;
  result.row_bytes = output_bytes / expected.m;
  if (expected.outputs.empty()) {
    result.outputs.reserve(std::min(output_bytes, kMaxReservedBytes));
  }
  return result;
}

void AppendPieces(absl::Span<const absl::string_view> pieces, int64_t offset,
                  const ExpectedOutputs& expected, RunResult* result) {
  if (!expected.outputs.empty()) {
    return Scatter(pieces, offset, expected.outputs);
  }
  for (absl::string_view piece : pieces) {
    result->outputs.append(piece.data(), piece.size());
  }
}

absl::StatusOr<RunResult> ReadResult(grpc::ByteBuffer* buffer,
                                     const ExpectedOutputs& expected) {
  v1::RunResponse message;
  ReceivedPayload payload;
  if (!ReadPayloadMessage(buffer, &message, &payload).ok()) {
    return absl::InternalError("the server's answer does not parse");
  }
  ASSIGN_OR_RETURN(RunResult result, ResultOfSize(payload.bytes, expected));
  AppendPieces(payload.pieces, 0, expected, &result);
  result.timings = FromWire(message.timings());
  return result;
}

}  // namespace qgemm
