// SPDX-License-Identifier: Apache-2.0
//
// What the handlers with operands, Gemm and Echo, share: both data paths
// (rpc_environment.h), and how long an operand that is being sent stays.

#ifndef QGEMM_SERVER_RPC_OPERANDS_H_
#define QGEMM_SERVER_RPC_OPERANDS_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "kernels/matrix/backend.h"
#include "proto/payload_message.h"
#include "server/rpc/rpc_environment.h"

namespace qgemm {

// A received message by the environment's data path.
// Errors: INVALID_ARGUMENT if it does not parse.
absl::Status ReadOperand(const RpcEnvironment& environment,
                         grpc::ByteBuffer* received,
                         google::protobuf::Message* header,
                         ReceivedPayload* payload);

// As generated code does it: every field is copied.
grpc::ByteBuffer SerializeWhole(const google::protobuf::Message& message);

// To be run when the bytes of `lease` have been sent: gives it back. Until
// then the server's end waits for it.
absl::AnyInvocable<void()> HeldWhileSent(const RpcEnvironment& environment,
                                         StagingLease lease);

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_OPERANDS_H_
