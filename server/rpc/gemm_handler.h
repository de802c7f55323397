// SPDX-License-Identifier: Apache-2.0
//
// The Gemm RPC: from a request on a completion queue to the scheduler, and
// from the launch's end to the answer.

#ifndef QGEMM_SERVER_RPC_GEMM_HANDLER_H_
#define QGEMM_SERVER_RPC_GEMM_HANDLER_H_

#include <cstdint>

#include "base/worker_pool.h"
#include "rpc/completion_queue.h"
#include "server/rpc/gemm_request_builder.h"
#include "server/rpc/rpc_options.h"
#include "server/rpc/server_call.h"

namespace qgemm {

// Thread-safe. Must outlive the calls it accepts.
class GemmHandler {
 public:
  // `service` must outlive the handler.
  GemmHandler(const CallServices& services, const GemmServices& gemm,
              AsyncQgemm* service, int64_t max_message_bytes);

  // Waits for one more call on `queue`; each accepted call makes room for the
  // next.
  void Accept(CompletionQueue* queue);

 private:
  class Call;

  const CallServices services_;
  const GemmServices gemm_;
  AsyncQgemm* const service_;
  const ResultLimit result_limit_;
  // Copy operands that would hold up the other calls of a completion queue.
  WorkerPool copiers_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_GEMM_HANDLER_H_
