// SPDX-License-Identifier: Apache-2.0
//
// Messages whose last field, number 15, is an operand: read from where gRPC
// received them and sent from where a backend wrote them, without a copy in
// between. Everything but that field is left to Protobuf.

#ifndef QGEMM_PROTO_PAYLOAD_MESSAGE_H_
#define QGEMM_PROTO_PAYLOAD_MESSAGE_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace qgemm {

// Number of the operand's field, of type `bytes`, in every such message.
inline constexpr int kPayloadField = 15;

// The operand of a received message: pieces in order, of any lengths.
struct ReceivedPayload {
  std::vector<absl::string_view> pieces;  // borrowed
  int64_t bytes = 0;
};

// Reads all fields but the operand into `header`, and the operand's place into
// `payload`: what Protobuf's parser would make of the bytes, for it parses all
// but the operand, and the whole of any message that does not look like what
// Protobuf's encoders make. Fields may come in any order, more than once (the
// last operand counts), and unknown ones are kept. The payload borrows from
// the buffer, or from `header`'s field 15, which is empty otherwise.
// Errors: INVALID_ARGUMENT if Protobuf would refuse the bytes.
absl::Status ReadPayloadMessage(grpc::ByteBuffer* buffer,
                                google::protobuf::Message* header,
                                ReceivedPayload* payload);

// The same, but the operand is always copied into `header`, as generated code
// does it.
absl::Status ParseWholeMessage(grpc::ByteBuffer* buffer,
                               google::protobuf::Message* header,
                               ReceivedPayload* payload);

// `bytes` as gRPC sends them, without a copy. `release` runs once, on any
// thread, when gRPC needs them no longer: after they were sent, or when the
// call is given up, which may be after the call's end.
grpc::Slice BorrowedSlice(absl::Span<const uint8_t> bytes,
                          absl::AnyInvocable<void()> release);

// Copies the pieces; `destination` holds payload.bytes.
void CopyPayload(const ReceivedPayload& payload, uint8_t* destination);

// A message of `header`'s fields and an operand that is sent from where it is;
// `release` as of BorrowedSlice.
grpc::ByteBuffer WritePayloadMessage(const google::protobuf::Message& header,
                                     absl::Span<const uint8_t> payload,
                                     absl::AnyInvocable<void()> release);

}  // namespace qgemm

#endif  // QGEMM_PROTO_PAYLOAD_MESSAGE_H_
