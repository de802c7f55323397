// SPDX-License-Identifier: Apache-2.0
//
// The Gemm RPC: from a request on a completion queue to the scheduler, and
// from the launch's end to the answer.

#ifndef QGEMM_SERVER_RPC_GEMM_HANDLER_H_
#define QGEMM_SERVER_RPC_GEMM_HANDLER_H_

#include "base/worker_pool.h"
#include "server/rpc/completion_queue.h"
#include "server/rpc/rpc_environment.h"

namespace qgemm {

// Thread-safe. Must outlive the calls it accepts.
class GemmHandler {
 public:
  // `environment` must outlive the handler.
  explicit GemmHandler(const RpcEnvironment* environment)
      : environment_(environment), copiers_(kCopiers) {}

  // Waits for one more call on `queue`; each accepted call makes room for the
  // next.
  void Accept(CompletionQueue* queue);

  // For copies that would hold up the other calls of a completion queue.
  WorkerPool* copiers() { return &copiers_; }

 private:
  static constexpr int kCopiers = 2;

  const RpcEnvironment* const environment_;
  WorkerPool copiers_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_GEMM_HANDLER_H_
