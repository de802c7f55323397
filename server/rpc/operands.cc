// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/operands.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <string>
#include <utility>

#include "absl/types/span.h"
#include "base/status_macros.h"
#include "server/rpc/live_calls.h"

namespace qgemm {
namespace {

// gRPC may hold an answer's bytes for longer than the call; the token keeps
// the backend, which they belong to, from going first.
struct Sent {
  Sent(LiveCalls* live_calls, StagingLease sent)
      : token(live_calls), lease(std::move(sent)) {}

  const LiveCalls::Token token;
  StagingLease lease;  // goes before the token does
};

// As generated code does it: every field is copied.
grpc::ByteBuffer SerializeWhole(const google::protobuf::Message& message) {
  grpc::ByteBuffer bytes;
  bool own_buffer = false;
  // Fails for messages of 2 GiB and more, which the limits exclude.
  (void)grpc::GenericSerialize<grpc::ProtoBufferWriter,
                               google::protobuf::Message>(message, &bytes,
                                                          &own_buffer);
  return bytes;
}

void SetPayload(absl::Span<const uint8_t> payload,
                google::protobuf::Message* message) {
  message->GetReflection()->SetString(
      message, message->GetDescriptor()->FindFieldByNumber(kPayloadField),
      std::string(payload.begin(), payload.end()));
}

}  // namespace

absl::Status ReadOperand(const RpcEnvironment& environment,
                         grpc::ByteBuffer* received,
                         google::protobuf::Message* header,
                         ReceivedPayload* payload) {
  return environment.options.data_path == DataPath::kRaw
             ? ReadPayloadMessage(received, header, payload)
             : ParseWholeMessage(received, header, payload);
}

std::shared_ptr<void> HoldWhileSent(const RpcEnvironment& environment,
                                    StagingLease lease) {
  return std::make_shared<Sent>(environment.live_calls, std::move(lease));
}

grpc::ByteBuffer WriteAnswer(const RpcEnvironment& environment,
                             google::protobuf::Message* header,
                             StagingLease lease, int64_t c_bytes) {
  const auto payload = absl::MakeConstSpan(lease.data(), c_bytes);
  if (environment.options.data_path == DataPath::kProtobuf) {
    SetPayload(payload, header);
    return SerializeWhole(*header);
  }
  return WritePayloadMessage(
      *header, payload,
      [held = HoldWhileSent(environment, std::move(lease))]() mutable {
        held.reset();
      });
}

absl::StatusOr<StagedOperands> AcquireOperands(
    const RpcEnvironment& environment, int64_t a_bytes, int64_t c_bytes) {
  StagedOperands operands;
  ASSIGN_OR_RETURN(operands.a, environment.backend->AcquireStaging(a_bytes));
  ASSIGN_OR_RETURN(operands.c, environment.backend->AcquireStaging(c_bytes));
  return operands;
}

}  // namespace qgemm
