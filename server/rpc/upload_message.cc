// SPDX-License-Identifier: Apache-2.0
//
// A walk over an upload's message adds up the bytes of chunks and stops where
// the others are too many.

#include "server/rpc/upload_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "rpc/message_limits.h"

namespace qgemm {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr uint32_t kChunkTag =
    WireFormatLite::MakeTag(v1::LoadWeightsRequest::kChunkFieldNumber,
                            WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
constexpr uint32_t kBytesTag =
    WireFormatLite::MakeTag(v1::WeightsChunk::kBytesFieldNumber,
                            WireFormatLite::WIRETYPE_LENGTH_DELIMITED);

bool IsTooMuch(const CodedInputStream& in, int64_t chunk_bytes) {
  return in.CurrentPosition() - chunk_bytes > kMaxFieldBytes;
}

// Adds the bytes of chunk.bytes to `bytes`, up to `end` in the stream or where
// the other bytes are too many. False at what does not parse.
bool AddChunkBytes(CodedInputStream* in, int end, int64_t* bytes) {
  while (in->CurrentPosition() < end && !IsTooMuch(*in, *bytes)) {
    const uint32_t tag = in->ReadTag();
    if (tag != kBytesTag) {
      if (tag == 0 || !WireFormatLite::SkipField(in, tag)) return false;
      continue;
    }
    uint32_t length = 0;
    if (!in->ReadVarint32(&length) ||
        length > static_cast<uint32_t>(std::numeric_limits<int>::max()) ||
        !in->Skip(static_cast<int>(length))) {
      return false;
    }
    *bytes += length;
  }
  return true;
}

bool AddMessageBytes(CodedInputStream* in, int end, int64_t* bytes) {
  while (in->CurrentPosition() < end && !IsTooMuch(*in, *bytes)) {
    const uint32_t tag = in->ReadTag();
    if (tag != kChunkTag) {
      if (tag == 0 || !WireFormatLite::SkipField(in, tag)) return false;
      continue;
    }
    uint32_t length = 0;
    if (!in->ReadVarint32(&length) ||
        length > static_cast<uint32_t>(end - in->CurrentPosition()) ||
        !AddChunkBytes(in, in->CurrentPosition() + static_cast<int>(length),
                       bytes)) {
      return false;
    }
  }
  return true;
}

absl::Status DoesNotParse() {
  return absl::InvalidArgumentError(
      "the message does not parse as qgemm.v1.LoadWeightsRequest; an upload is "
      "a header, then chunks");
}

// OK, or INVALID_ARGUMENT as ReadUploadMessage says.
absl::Status CheckSize(grpc::ByteBuffer* buffer) {
  const auto size = static_cast<int64_t>(buffer->Length());
  if (size <= kMaxFieldBytes) return absl::OkStatus();
  grpc::ProtoBufferReader reader(buffer);
  if (!reader.status().ok()) return DoesNotParse();
  CodedInputStream in(&reader);
  in.SetTotalBytesLimit(std::numeric_limits<int>::max());
  int64_t chunk_bytes = 0;
  if (!AddMessageBytes(&in, static_cast<int>(size), &chunk_bytes)) {
    return DoesNotParse();
  }
  if (size - chunk_bytes <= kMaxFieldBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the message has ", size - chunk_bytes,
                   " bytes beside those of its chunk; it may have at most ",
                   kMaxFieldBytes));
}

}  // namespace

absl::Status ReadUploadMessage(grpc::ByteBuffer* buffer,
                               v1::LoadWeightsRequest* message) {
  RETURN_IF_ERROR(CheckSize(buffer));
  const grpc::Status parsed =
      grpc::SerializationTraits<v1::LoadWeightsRequest>::Deserialize(buffer,
                                                                     message);
  buffer->Clear();
  return parsed.ok() ? absl::OkStatus() : DoesNotParse();
}

}  // namespace qgemm
