// SPDX-License-Identifier: Apache-2.0
//
// A walk over a message adds up the bytes of the field that may be long, and
// stops where the others are too many.

#include "server/rpc/upload_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstdint>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "kernels/programs/checked_program.h"
#include "rpc/message_limits.h"

namespace qgemm {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Numbers of the fields from a message down to one of type `bytes`.
using FieldPath = absl::Span<const int>;

constexpr int kChunkPath[] = {v1::LoadWeightsRequest::kChunkFieldNumber,
                              v1::WeightsChunk::kBytesFieldNumber};
constexpr int kConstantsPath[] = {v1::LoadProgramRequest::kProgramFieldNumber,
                                  v1::Program::kConstantsFieldNumber,
                                  v1::Program::Constant::kValuesFieldNumber};

bool IsTooMuch(const CodedInputStream& in, int64_t bytes) {
  return in.CurrentPosition() - bytes > kMaxFieldBytes;
}

// Adds the contents of the path's last field to `bytes`, up to `end` in the
// stream or where the other bytes are too many. False at what does not parse.
bool AddContents(CodedInputStream* in, int end, FieldPath path,
                 int64_t* bytes) {
  const uint32_t tag_on_path = WireFormatLite::MakeTag(
      path.front(), WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  while (in->CurrentPosition() < end && !IsTooMuch(*in, *bytes)) {
    const uint32_t tag = in->ReadTag();
    if (tag != tag_on_path) {
      if (tag == 0 || !WireFormatLite::SkipField(in, tag)) return false;
      continue;
    }
    uint32_t length = 0;
    if (!in->ReadVarint32(&length)) return false;
    const int left = end - in->CurrentPosition();
    if (left < 0 || length > static_cast<uint32_t>(left)) return false;
    const int content = static_cast<int>(length);
    if (path.size() == 1) {
      if (!in->Skip(content)) return false;
      *bytes += content;
    } else if (!AddContents(in, in->CurrentPosition() + content,
                            path.subspan(1), bytes)) {
      return false;
    }
  }
  return true;
}

constexpr absl::string_view kUpload =
    "LoadWeightsRequest; an upload is a header, then chunks";
constexpr absl::string_view kProgram = "LoadProgramRequest";

absl::Status DoesNotParse(absl::string_view message) {
  return absl::InvalidArgumentError(
      absl::StrCat("the message does not parse as qgemm.v1.", message));
}

// The bytes of the path's last field, wherever it stands; some of them if the
// other bytes are too many. Nothing if the message does not parse.
std::optional<int64_t> ContentsOf(grpc::ByteBuffer* buffer, FieldPath path) {
  grpc::ProtoBufferReader reader(buffer);
  if (!reader.status().ok()) return std::nullopt;
  CodedInputStream in(&reader);
  in.SetTotalBytesLimit(std::numeric_limits<int>::max());
  int64_t bytes = 0;
  if (!AddContents(&in, static_cast<int>(buffer->Length()), path, &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

absl::Status CheckOtherBytes(int64_t bytes, absl::string_view whose) {
  if (bytes <= kMaxFieldBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the message has ", bytes, " bytes beside those of its ",
                   whose, "; it may have at most ", kMaxFieldBytes));
}

absl::Status CheckUploadSize(grpc::ByteBuffer* buffer) {
  const auto size = static_cast<int64_t>(buffer->Length());
  if (size <= kMaxFieldBytes) return absl::OkStatus();
  const std::optional<int64_t> chunk = ContentsOf(buffer, kChunkPath);
  if (!chunk.has_value()) return DoesNotParse(kUpload);
  return CheckOtherBytes(size - *chunk, "chunk");
}

// In the words of CheckProgram where that would refuse it too.
absl::Status CheckProgramSize(grpc::ByteBuffer* buffer) {
  const auto size = static_cast<int64_t>(buffer->Length());
  if (size <= kMaxFieldBytes) return absl::OkStatus();
  const std::optional<int64_t> constants = ContentsOf(buffer, kConstantsPath);
  if (!constants.has_value()) return DoesNotParse(kProgram);
  RETURN_IF_ERROR(CheckOtherBytes(size - *constants, "constants"));
  const int64_t limit = ProgramLimits().max_constant_bytes;
  if (*constants <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "constants: ", *constants, " bytes in all; at most ", limit));
}

template <typename Message>
absl::Status Parse(absl::string_view name, grpc::ByteBuffer* buffer,
                   Message* message) {
  const grpc::Status parsed =
      grpc::SerializationTraits<Message>::Deserialize(buffer, message);
  buffer->Clear();
  return parsed.ok() ? absl::OkStatus() : DoesNotParse(name);
}

}  // namespace

absl::Status ReadUploadMessage(grpc::ByteBuffer* buffer,
                               v1::LoadWeightsRequest* message) {
  RETURN_IF_ERROR(CheckUploadSize(buffer));
  return Parse(kUpload, buffer, message);
}

absl::Status ReadProgramMessage(grpc::ByteBuffer* buffer,
                                v1::LoadProgramRequest* message) {
  RETURN_IF_ERROR(CheckProgramSize(buffer));
  return Parse(kProgram, buffer, message);
}

}  // namespace qgemm
