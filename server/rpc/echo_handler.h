// SPDX-License-Identifier: Apache-2.0
//
// The Echo RPC: the way of a Gemm's operands through the server without a
// launch, as a yardstick of the transport.

#ifndef QGEMM_SERVER_RPC_ECHO_HANDLER_H_
#define QGEMM_SERVER_RPC_ECHO_HANDLER_H_

#include "qgemm/v1/debug.grpc.pb.h"
#include "server/rpc/completion_queue.h"
#include "server/rpc/rpc_environment.h"

namespace qgemm {

// Every RPC for tests and measurements, asynchronous.
using AsyncQgemmDebug = v1::QgemmDebug::WithRawMethod_Echo<
    v1::QgemmDebug::WithAsyncMethod_Freeze<v1::QgemmDebug::Service>>;

// Thread-safe. Must outlive the calls it accepts.
class EchoHandler {
 public:
  // Both must outlive the handler.
  EchoHandler(const RpcEnvironment* environment, AsyncQgemmDebug* service)
      : environment_(environment), service_(service) {}

  // Waits for one more call on `queue`; each accepted call makes room for the
  // next.
  void Accept(CompletionQueue* queue);

 private:
  const RpcEnvironment* const environment_;
  AsyncQgemmDebug* const service_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_ECHO_HANDLER_H_
