// SPDX-License-Identifier: Apache-2.0
//
// The LoadWeights RPC: bounds the uploads in progress and ends them when the
// server drains.

#ifndef QGEMM_SERVER_RPC_LOAD_WEIGHTS_HANDLER_H_
#define QGEMM_SERVER_RPC_LOAD_WEIGHTS_HANDLER_H_

#include "base/worker_pool.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/backend.h"
#include "rpc/completion_queue.h"
#include "server/rpc/call_registry.h"
#include "server/rpc/rpc_options.h"
#include "server/rpc/server_call.h"
#include "server/weights/weight_store.h"

namespace qgemm {

// Thread-safe. Must outlive the calls it accepts.
class LoadWeightsHandler {
 public:
  // All must outlive the handler.
  LoadWeightsHandler(const CallServices& services, Backend* backend,
                     WeightStore* store, AsyncQgemm* service,
                     const RpcOptions& options);
  ~LoadWeightsHandler();

  // Waits for one more call on `queue`; each accepted call makes room for the
  // next.
  void Accept(CompletionQueue* queue);

  // Ends every upload in progress with UNAVAILABLE.
  void EndUploads();

 private:
  class Call;

  const CallServices services_;
  Backend* const backend_;
  WeightStore* const store_;
  AsyncQgemm* const service_;
  const WeightsLimits limits_;
  CallRegistry<Call> uploads_;
  WorkerPool workers_;  // last: its destructor runs what uploads left
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_LOAD_WEIGHTS_HANDLER_H_
