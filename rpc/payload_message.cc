// SPDX-License-Identifier: Apache-2.0
//
// A walk over the fields copies all but the operand into a small message of
// their own, which Protobuf parses.

#include "rpc/payload_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/tsan.h"

namespace qgemm {
namespace {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

// The low three bits of a tag.
enum WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLength = 2,
  kFixed32 = 5
};

constexpr uint32_t kPayloadTag = kPayloadField << 3 | kLength;
constexpr int kMaxTagBytes = 5;
constexpr int kMaxLengthBytes = 5;
constexpr int kMaxVarintBytes = 10;

// Walks a message's fields; false at anything that an encoder would not make,
// which is left to Protobuf's parser then.
class FieldWalker {
 public:
  // Fields other than the operand go to `rest`, byte for byte.
  FieldWalker(CodedInputStream* in, std::string* rest, ReceivedPayload* payload)
      : in_(in), rest_(rest), payload_(payload) {}

  bool Walk() {
    while (!AtEnd()) {
      const size_t start = rest_->size();
      uint64_t tag = 0;
      if (!CopyVarint(kMaxTagBytes, &tag)) return false;
      if (tag == kPayloadTag) {
        rest_->resize(start);
        if (!ReadPieces()) return false;
      } else if (tag >> 3 == 0 || !CopyField(tag & 7)) {
        return false;
      }
    }
    return true;
  }

 private:
  bool AtEnd() {
    const void* data = nullptr;
    int size = 0;
    return !in_->GetDirectBufferPointer(&data, &size);
  }

  // Copies a varint of at most `most` bytes to `rest_`.
  bool CopyVarint(int most, uint64_t* value) {
    *value = 0;
    for (int i = 0; i < most; ++i) {
      uint8_t byte = 0;
      if (!in_->ReadRaw(&byte, 1)) return false;
      rest_->push_back(static_cast<char>(byte));
      *value |= uint64_t{byte & 0x7fu} << (7 * i);
      if (byte < 0x80) return true;
    }
    return false;
  }

  bool CopyBytes(uint64_t count) {
    if (count > static_cast<uint64_t>(std::numeric_limits<int>::max())) {
      return false;
    }
    const size_t start = rest_->size();
    std::string bytes;
    if (!in_->ReadString(&bytes, static_cast<int>(count))) return false;
    rest_->insert(start, bytes);
    return true;
  }

  bool CopyField(uint32_t wire_type) {
    uint64_t value = 0;
    switch (wire_type) {
      case kVarint:
        return CopyVarint(kMaxVarintBytes, &value);
      case kFixed64:
        return CopyBytes(8);
      case kFixed32:
        return CopyBytes(4);
      case kLength:
        return CopyVarint(kMaxLengthBytes, &value) && CopyBytes(value);
      default:
        return false;
    }
  }

  bool ReadPieces() {
    const size_t start = rest_->size();
    uint64_t left = 0;
    if (!CopyVarint(kMaxLengthBytes, &left)) return false;
    rest_->resize(start);
    payload_->pieces.clear();  // the last one counts of a field given twice
    payload_->bytes = static_cast<int64_t>(left);
    while (left > 0) {
      const void* data = nullptr;
      int size = 0;
      if (!in_->GetDirectBufferPointer(&data, &size)) return false;
      const int taken = static_cast<int>(std::min<uint64_t>(size, left));
      payload_->pieces.emplace_back(static_cast<const char*>(data), taken);
      if (!in_->Skip(taken)) return false;
      left -= taken;
    }
    return true;
  }

  CodedInputStream* const in_;
  std::string* const rest_;
  ReceivedPayload* const payload_;
};

bool ReadInPlace(grpc::ByteBuffer* buffer, google::protobuf::Message* header,
                 ReceivedPayload* payload) {
  payload->pieces.clear();
  payload->bytes = 0;
  std::string rest;
  grpc::ProtoBufferReader reader(buffer);
  if (!reader.status().ok()) return false;
  CodedInputStream in(&reader);
  in.SetTotalBytesLimit(std::numeric_limits<int>::max());
  return FieldWalker(&in, &rest, payload).Walk() &&
         header->ParseFromString(rest);
}

// Reads as generated code does: the operand is copied into `header`.
absl::Status ParseWholeMessage(grpc::ByteBuffer* buffer,
                               google::protobuf::Message* header,
                               ReceivedPayload* payload) {
  payload->pieces.clear();
  payload->bytes = 0;
  grpc::ProtoBufferReader reader(buffer);
  if (!reader.status().ok() || !header->ParseFromZeroCopyStream(&reader)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the message does not parse as ", header->GetTypeName()));
  }
  const std::string& operand = header->GetReflection()->GetStringReference(
      *header, header->GetDescriptor()->FindFieldByNumber(kPayloadField),
      nullptr);
  payload->pieces.emplace_back(operand);
  payload->bytes = static_cast<int64_t>(operand.size());
  return absl::OkStatus();
}

using Release = absl::AnyInvocable<void()>;

void RunRelease(void* user_data) {
  TsanAcquire(user_data);
  const std::unique_ptr<Release> release(static_cast<Release*>(user_data));
  (*release)();
}

}  // namespace

grpc::Slice BorrowedSlice(absl::Span<const uint8_t> bytes,
                          absl::AnyInvocable<void()> release) {
  auto* const user_data = new Release(std::move(release));
  TsanRelease(user_data);
  // gRPC does not write to a slice that it sends.
  return grpc::Slice(const_cast<uint8_t*>(bytes.data()), bytes.size(),
                     RunRelease, user_data);
}

absl::Status ReadPayloadMessage(grpc::ByteBuffer* buffer,
                                google::protobuf::Message* header,
                                ReceivedPayload* payload) {
  if (ReadInPlace(buffer, header, payload)) return absl::OkStatus();
  return ParseWholeMessage(buffer, header, payload);
}

void CopyPayload(const ReceivedPayload& payload, uint8_t* destination) {
  for (absl::string_view piece : payload.pieces) {
    std::memcpy(destination, piece.data(), piece.size());
    destination += piece.size();
  }
}

grpc::ByteBuffer WritePayloadMessage(const google::protobuf::Message& header,
                                     absl::Span<const uint8_t> payload,
                                     absl::AnyInvocable<void()> release) {
  std::string prefix = header.SerializeAsString();
  {
    StringOutputStream stream(&prefix);  // appends
    CodedOutputStream out(&stream);
    out.WriteVarint32(kPayloadTag);
    out.WriteVarint64(payload.size());
  }
  const grpc::Slice slices[2] = {grpc::Slice(prefix),
                                 BorrowedSlice(payload, std::move(release))};
  return grpc::ByteBuffer(slices, 2);
}

}  // namespace qgemm
