// SPDX-License-Identifier: Apache-2.0
//
// The RPCs of QgemmDebug, each answered only if its flag is set, on the
// completion queues of qgemm_service.h.

#ifndef QGEMM_SERVER_RPC_DEBUG_SERVICE_H_
#define QGEMM_SERVER_RPC_DEBUG_SERVICE_H_

#include <grpcpp/server_builder.h>

#include "absl/status/status.h"
#include "qgemm/v1/debug.grpc.pb.h"
#include "server/rpc/completion_queue.h"
#include "server/rpc/echo_handler.h"
#include "server/rpc/rpc_environment.h"
#include "server/rpc/unary_handler.h"

namespace qgemm {

// The life of the service: Register, the server is built, Accept. Must outlive
// the calls it accepts.
class DebugService {
 public:
  // `environment` must outlive the service.
  explicit DebugService(const RpcEnvironment* environment);

  // Adds the service if any of its RPCs is enabled. One that is not answers
  // UNIMPLEMENTED.
  void Register(grpc::ServerBuilder* builder);

  // Waits for calls on `queue`, `echo_calls` and `freeze_calls` at one time;
  // for none if the service was not added.
  void Accept(CompletionQueue* queue, int echo_calls, int freeze_calls);

 private:
  bool IsEnabled() const;
  absl::Status Freeze(const v1::FreezeRequest& request) const;

  const RpcEnvironment* const environment_;
  AsyncQgemmDebug service_;
  EchoHandler echo_;
  UnaryHandler<AsyncQgemmDebug, v1::FreezeRequest, v1::FreezeResponse> freeze_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_DEBUG_SERVICE_H_
