// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes messages whose last field, number 15, is an operand: it is
// read where gRPC received it and sent from where a backend wrote it, without
// a copy. Every other field is left to Protobuf. Other messages are read within
// a bound.

#ifndef QGEMM_RPC_PAYLOAD_MESSAGE_H_
#define QGEMM_RPC_PAYLOAD_MESSAGE_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
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

// Reads all fields but the operand into `header`, and where the operand lies
// into `payload`. The outcome equals that of Protobuf's parser on the same
// bytes: it parses everything but the operand, and the whole of a message that
// no Protobuf encoder would make. Fields may come in any order and more than
// once (the last operand counts); unknown ones are kept. The payload borrows
// from the buffer, or from field 15 of `header`, which is empty otherwise.
// Errors: INVALID_ARGUMENT if Protobuf would refuse the bytes, and, before it
// sees them, if more than kMaxFieldBytes (message_limits.h) of them are not the
// operand's contents; so a client cannot have the server parse for seconds.
absl::Status ReadPayloadMessage(grpc::ByteBuffer* buffer,
                                google::protobuf::Message* header,
                                ReceivedPayload* payload);

// Reads a message of at most `max_bytes`. Errors: RESOURCE_EXHAUSTED for a
// longer one, before any of it is parsed; INVALID_ARGUMENT if it does not
// parse.
absl::Status ReadBoundedMessage(grpc::ByteBuffer* buffer, int64_t max_bytes,
                                google::protobuf::Message* message);

// The bytes of a message without an operand.
grpc::ByteBuffer WriteMessage(const google::protobuf::Message& message);

// A slice that lends `bytes` to gRPC, without a copy. `release` runs once, on
// any thread, when gRPC needs them no longer: after they were sent, or when
// the call is given up, which may be after the call's end.
grpc::Slice BorrowedSlice(absl::Span<const uint8_t> bytes,
                          absl::AnyInvocable<void()> release);

// Copies the pieces; `destination` holds payload.bytes.
void CopyPayload(const ReceivedPayload& payload, uint8_t* destination);

// A message of `header`'s fields and an operand that is sent from where it is;
// `release` is that of BorrowedSlice.
grpc::ByteBuffer WritePayloadMessage(const google::protobuf::Message& header,
                                     absl::Span<const uint8_t> payload,
                                     absl::AnyInvocable<void()> release);

// The same with the operand in slices of at most `slice_bytes`, each with a
// release of its own: they come as gRPC gets on with sending a long operand.
grpc::ByteBuffer WriteSlicedPayloadMessage(
    const google::protobuf::Message& header, absl::Span<const uint8_t> payload,
    int64_t slice_bytes,
    absl::FunctionRef<absl::AnyInvocable<void()>()> make_release);

}  // namespace qgemm

#endif  // QGEMM_RPC_PAYLOAD_MESSAGE_H_
