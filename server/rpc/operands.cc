// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/operands.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <memory>
#include <utility>

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

}  // namespace

absl::Status ReadOperand(const RpcEnvironment& environment,
                         grpc::ByteBuffer* received,
                         google::protobuf::Message* header,
                         ReceivedPayload* payload) {
  return environment.options.data_path == DataPath::kRaw
             ? ReadPayloadMessage(received, header, payload)
             : ParseWholeMessage(received, header, payload);
}

grpc::ByteBuffer SerializeWhole(const google::protobuf::Message& message) {
  grpc::ByteBuffer bytes;
  bool own_buffer = false;
  // Fails for messages of 2 GiB and more, which the limits exclude.
  (void)grpc::GenericSerialize<grpc::ProtoBufferWriter,
                               google::protobuf::Message>(message, &bytes,
                                                          &own_buffer);
  return bytes;
}

absl::AnyInvocable<void()> HeldWhileSent(const RpcEnvironment& environment,
                                         StagingLease lease) {
  return [sent = std::make_unique<Sent>(environment.live_calls,
                                        std::move(lease))]() mutable {
    sent.reset();
  };
}

}  // namespace qgemm
