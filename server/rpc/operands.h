// SPDX-License-Identifier: Apache-2.0
//
// Operands between messages and the backend's memory: both data paths
// (rpc_environment.h), and how long an operand that is being sent stays.

#ifndef QGEMM_SERVER_RPC_OPERANDS_H_
#define QGEMM_SERVER_RPC_OPERANDS_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

// Owns `lease`, whose bytes are being sent. Until it goes, and the lease with
// it, the server's end waits.
std::shared_ptr<void> HoldWhileSent(const RpcEnvironment& environment,
                                    StagingLease lease);

// An answer of `header`'s fields and the lease's first `c_bytes`, by the
// environment's data path.
grpc::ByteBuffer WriteAnswer(const RpcEnvironment& environment,
                             google::protobuf::Message* header,
                             StagingLease lease, int64_t c_bytes);

// Memory of the backend for a request's activations and its result.
struct StagedOperands {
  StagingLease a;
  StagingLease c;
};
// Errors: RESOURCE_EXHAUSTED.
absl::StatusOr<StagedOperands> AcquireOperands(
    const RpcEnvironment& environment, int64_t a_bytes, int64_t c_bytes);

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_OPERANDS_H_
