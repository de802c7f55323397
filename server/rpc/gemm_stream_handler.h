// SPDX-License-Identifier: Apache-2.0
//
// The GemmStream RPC: accepts its calls, tells them when the server drains, and
// bounds the memory that they hold together. One call is in gemm_stream_call.h.

#ifndef QGEMM_SERVER_RPC_GEMM_STREAM_HANDLER_H_
#define QGEMM_SERVER_RPC_GEMM_STREAM_HANDLER_H_

#include "base/byte_budget.h"
#include "rpc/completion_queue.h"
#include "server/rpc/call_registry.h"
#include "server/rpc/gemm_request_builder.h"
#include "server/rpc/rpc_options.h"
#include "server/rpc/server_call.h"

namespace qgemm {

class GemmStreamCall;

// Thread-safe. Must outlive the calls it accepts.
class GemmStreamHandler {
 public:
  // `service` must outlive the handler.
  GemmStreamHandler(const CallServices& services, const GemmServices& gemm,
                    AsyncQgemm* service, const RpcOptions& options);

  // Waits for one more call on `queue`; each accepted call makes room for the
  // next.
  void Accept(CompletionQueue* queue);

  // Every call ends as soon as the requests that it accepted are answered.
  void BeginDrain();

 private:
  friend class GemmStreamCall;

  const CallServices services_;
  const GemmServices gemm_;
  AsyncQgemm* const service_;
  const RpcOptions options_;
  // Operands of all streams that have come in part: memory that clients make
  // the server hold without ever making a request of it.
  ByteBudget partial_operands_;
  CallRegistry<GemmStreamCall> calls_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_GEMM_STREAM_HANDLER_H_
