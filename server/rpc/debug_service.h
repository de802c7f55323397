// SPDX-License-Identifier: Apache-2.0
//
// The RPCs of QgemmDebug: Echo, the way of a Gemm's operands through the
// server without a launch, as a baseline of the transport; Freeze; and
// InjectFault. Each is answered only if its flag is set, and with UNIMPLEMENTED
// otherwise.

#ifndef QGEMM_SERVER_RPC_DEBUG_SERVICE_H_
#define QGEMM_SERVER_RPC_DEBUG_SERVICE_H_

#include <grpcpp/server_builder.h>

#include "absl/status/status.h"
#include "kernels/matrix/backend.h"
#include "qgemm/v1/debug.grpc.pb.h"
#include "rpc/completion_queue.h"
#include "server/rpc/rpc_options.h"
#include "server/rpc/server_call.h"
#include "server/rpc/unary_handler.h"
#include "server/scheduling/batch_scheduler.h"

namespace qgemm {

// Every RPC for tests and measurements, asynchronous; takes and gives bytes.
using AsyncQgemmDebug =
    v1::QgemmDebug::WithRawMethod_Echo<v1::QgemmDebug::WithRawMethod_Freeze<
        v1::QgemmDebug::WithRawMethod_InjectFault<v1::QgemmDebug::Service>>>;

// The life of the service: Register, the server is built, Accept. Must outlive
// the calls it accepts.
class DebugService {
 public:
  // All must outlive the service.
  DebugService(const CallServices& services, Backend* backend,
               BatchScheduler* scheduler, const RpcOptions& options);

  void Register(grpc::ServerBuilder* builder);

  // Waits for calls on `queue`: `echo_calls` of Echo at one time if it is
  // enabled.
  void Accept(CompletionQueue* queue, int echo_calls);

 private:
  class EchoCall;

  void AcceptEcho(CompletionQueue* queue);
  absl::Status Freeze(const v1::FreezeRequest& request) const;
  absl::Status InjectFault(const v1::InjectFaultRequest& request) const;

  const CallServices services_;
  Backend* const backend_;
  BatchScheduler* const scheduler_;
  const RpcOptions options_;
  AsyncQgemmDebug service_;
  UnaryHandler<AsyncQgemmDebug, v1::FreezeRequest, v1::FreezeResponse> freeze_;
  UnaryHandler<AsyncQgemmDebug, v1::InjectFaultRequest, v1::InjectFaultResponse>
      inject_fault_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_DEBUG_SERVICE_H_
