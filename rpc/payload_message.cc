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
#include "rpc/message_limits.h"

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

// End of a walk over a message's fields.
enum class Walked : uint8_t {
  kWhole,
  kUnusual,   // something that an encoder would not make
  kTooLarge,  // more than kMaxFieldBytes beside the operand
};

// Walks a message's fields. What it finds unusual is left to Protobuf's parser.
class FieldWalker {
 public:
  // Fields other than the operand go to `rest`, byte for byte.
  FieldWalker(CodedInputStream* in, std::string* rest, ReceivedPayload* payload)
      : in_(in), rest_(rest), payload_(payload) {}

  Walked Walk() {
    while (!AtEnd()) {
      const size_t start = rest_->size();
      uint64_t tag = 0;
      if (!CopyVarint(kMaxTagBytes, &tag)) return Walked::kUnusual;
      if (tag == kPayloadTag) {
        // Operands beside the last one cost time too.
        operand_fields_bytes_ += kMaxTagBytes + kMaxLengthBytes;
        rest_->resize(start);
        if (!ReadPieces()) return Walked::kUnusual;
      } else if (tag >> 3 == 0 || !CopyField(tag & 7)) {
        return too_large_ ? Walked::kTooLarge : Walked::kUnusual;
      }
      if (FieldBytes() > kMaxFieldBytes) return Walked::kTooLarge;
    }
    return Walked::kWhole;
  }

 private:
  int64_t FieldBytes() const {
    return static_cast<int64_t>(rest_->size()) + operand_fields_bytes_;
  }

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
    if (count > static_cast<uint64_t>(kMaxFieldBytes)) {
      too_large_ = true;
      return false;
    }
    const size_t start = rest_->size();
    rest_->resize(start + count);
    return in_->ReadRaw(rest_->data() + start, static_cast<int>(count));
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
  int64_t operand_fields_bytes_ = 0;  // an upper bound of tags and lengths
  bool too_large_ = false;
};

Walked ReadInPlace(grpc::ByteBuffer* buffer, google::protobuf::Message* header,
                   ReceivedPayload* payload) {
  payload->pieces.clear();
  payload->bytes = 0;
  std::string rest;
  grpc::ProtoBufferReader reader(buffer);
  if (!reader.status().ok()) return Walked::kUnusual;
  CodedInputStream in(&reader);
  in.SetTotalBytesLimit(std::numeric_limits<int>::max());
  const Walked walked = FieldWalker(&in, &rest, payload).Walk();
  if (walked == Walked::kWhole && !header->ParseFromString(rest)) {
    return Walked::kUnusual;
  }
  return walked;
}

absl::Status DoesNotParse(const google::protobuf::Message& message) {
  return absl::InvalidArgumentError(
      absl::StrCat("the message does not parse as ", message.GetTypeName()));
}

// Reads as generated code does: the operand is copied into `header`.
absl::Status ParseWholeMessage(grpc::ByteBuffer* buffer,
                               google::protobuf::Message* header,
                               ReceivedPayload* payload) {
  payload->pieces.clear();
  payload->bytes = 0;
  grpc::ProtoBufferReader reader(buffer);
  if (!reader.status().ok() || !header->ParseFromZeroCopyStream(&reader)) {
    return DoesNotParse(*header);
  }
  const std::string& operand = header->GetReflection()->GetStringReference(
      *header, header->GetDescriptor()->FindFieldByNumber(kPayloadField),
      nullptr);
  payload->pieces.emplace_back(operand);
  payload->bytes = static_cast<int64_t>(operand.size());
  return absl::OkStatus();
}

// Everything of a message but the operand, whose bytes follow.
grpc::Slice PrefixOf(const google::protobuf::Message& header,
                     absl::Span<const uint8_t> payload) {
  std::string prefix = header.SerializeAsString();
  {
    StringOutputStream stream(&prefix);  // appends
    CodedOutputStream out(&stream);
    out.WriteVarint32(kPayloadTag);
    out.WriteVarint64(payload.size());
  }
  return grpc::Slice(prefix);
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
  const Walked walked = ReadInPlace(buffer, header, payload);
  if (walked == Walked::kWhole) return absl::OkStatus();
  // The whole of an unusual message is parsed only if it is a short one.
  const bool is_long = buffer->Valid() &&
                       static_cast<int64_t>(buffer->Length()) > kMaxFieldBytes;
  if (walked == Walked::kUnusual && !is_long) {
    return ParseWholeMessage(buffer, header, payload);
  }
  payload->pieces.clear();
  payload->bytes = 0;
  if (walked == Walked::kUnusual) return DoesNotParse(*header);
  return absl::InvalidArgumentError(
      absl::StrCat("the fields of ", header->GetTypeName(),
                   " beside field 15 have more than ", kMaxFieldBytes,
                   " bytes; send fewer, and no unknown ones"));
}

absl::Status ReadBoundedMessage(grpc::ByteBuffer* buffer, int64_t max_bytes,
                                google::protobuf::Message* message) {
  if (!buffer->Valid()) return DoesNotParse(*message);
  const auto bytes = static_cast<int64_t>(buffer->Length());
  if (bytes > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a ", message->GetTypeName(), " of ", bytes,
                     " bytes; it may have ", max_bytes));
  }
  grpc::ProtoBufferReader reader(buffer);
  if (!reader.status().ok() || !message->ParseFromZeroCopyStream(&reader)) {
    return DoesNotParse(*message);
  }
  return absl::OkStatus();
}

grpc::ByteBuffer WriteMessage(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
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
  const grpc::Slice slices[2] = {PrefixOf(header, payload),
                                 BorrowedSlice(payload, std::move(release))};
  return grpc::ByteBuffer(slices, 2);
}

grpc::ByteBuffer WriteSlicedPayloadMessage(
    const google::protobuf::Message& header, absl::Span<const uint8_t> payload,
    int64_t slice_bytes,
    absl::FunctionRef<absl::AnyInvocable<void()>()> make_release) {
  std::vector<grpc::Slice> slices = {PrefixOf(header, payload)};
  for (size_t begin = 0; begin < payload.size(); begin += slice_bytes) {
    slices.push_back(
        BorrowedSlice(payload.subspan(begin, slice_bytes), make_release()));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace qgemm
