// SPDX-License-Identifier: Apache-2.0
//
// The gate before gRPC's own services, reflection and channelz, whose calls
// are not ours to accept.

#ifndef QGEMM_SERVER_RPC_SERVICE_GUARD_H_
#define QGEMM_SERVER_RPC_SERVICE_GUARD_H_

#include <grpcpp/server_builder.h>

#include "server/rpc/call_gate.h"

namespace qgemm {

// Has the gate decide on each call of those services, by the right `debug`; one
// that it denies ends with the gate's status and none of the service's answer.
// Their requests are parsed before. For every other call gRPC makes a record
// of its method and asks whether it is one, too. The gate must outlive the
// server.
void GuardGrpcServices(const CallGate* gate, grpc::ServerBuilder* builder);

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_SERVICE_GUARD_H_
