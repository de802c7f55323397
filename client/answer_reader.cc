// SPDX-License-Identifier: Apache-2.0
//
// Walks the fields with protobuf's own reader of wire bytes.

#include "client/answer_reader.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <limits>

#include "client/wire.h"
#include "qgemm/v1/qgemm.pb.h"

namespace qgemm {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr uint32_t TagOf(int field) {
  return WireFormatLite::MakeTag(field,
                                 WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

bool ReadPieces(CodedInputStream* in, std::vector<absl::string_view>* pieces) {
  int left = 0;
  if (!in->ReadVarintSizeAsInt(&left)) return false;
  pieces->clear();  // of a field that comes twice the last one counts
  while (left > 0) {
    const void* data = nullptr;
    int size = 0;
    if (!in->GetDirectBufferPointer(&data, &size)) return false;
    const int taken = std::min(size, left);
    pieces->emplace_back(static_cast<const char*>(data), taken);
    if (!in->Skip(taken)) return false;
    left -= taken;
  }
  return true;
}

bool ReadTimings(CodedInputStream* in, v1::Timings* timings) {
  int bytes = 0;
  if (!in->ReadVarintSizeAsInt(&bytes)) return false;
  const int begin = in->CurrentPosition();
  const CodedInputStream::Limit limit = in->PushLimit(bytes);
  // Where the input ends before the limit, protobuf sees a whole message.
  const bool read = timings->MergeFromCodedStream(in) &&
                    in->ConsumedEntireMessage() &&
                    in->CurrentPosition() - begin == bytes;
  in->PopLimit(limit);
  return read;
}

bool ReadFields(CodedInputStream* in, v1::Timings* timings,
                std::vector<absl::string_view>* c) {
  while (const uint32_t tag = in->ReadTag()) {
    bool read;
    if (tag == TagOf(v1::GemmResponse::kTimingsFieldNumber)) {
      read = ReadTimings(in, timings);
    } else if (tag == TagOf(v1::GemmResponse::kCFieldNumber)) {
      read = ReadPieces(in, c);
    } else {
      read = WireFormatLite::SkipField(in, tag);
    }
    if (!read) return false;
  }
  return in->ConsumedEntireMessage();
}

}  // namespace

absl::Status ReadAnswer(grpc::ByteBuffer* buffer, AnswerView* answer) {
  answer->c.clear();
  answer->timings = ServerTimings();
  v1::Timings timings;
  grpc::ProtoBufferReader reader(buffer);
  CodedInputStream in(&reader);
  in.SetTotalBytesLimit(std::numeric_limits<int>::max());
  if (!reader.status().ok() || !ReadFields(&in, &timings, &answer->c)) {
    answer->c.clear();
    return absl::InternalError("the server's answer does not parse");
  }
  answer->timings = FromWire(timings);
  return absl::OkStatus();
}

}  // namespace qgemm
