// SPDX-License-Identifier: Apache-2.0
//
// Handlers of the RPCs that carry operands: Gemm, Run, GemmStream, LoadWeights.
// Each accepts its calls; one call is an object in the handler's source, or in
// gemm_stream_call.h and load_weights_call.h.

#ifndef QGEMM_SERVER_RPC_HANDLERS_H_
#define QGEMM_SERVER_RPC_HANDLERS_H_

#include <cstdint>

#include "base/worker_pool.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/backend.h"
#include "rpc/completion_queue.h"
#include "server/rpc/call_registry.h"
#include "server/rpc/gemm_request_builder.h"
#include "server/rpc/rpc_options.h"
#include "server/rpc/server_call.h"
#include "server/rpc/upload_places.h"
#include "server/weights/upload_table.h"
#include "server/weights/weight_store.h"

namespace qgemm {

// Handles a unary RPC that computes rows. Thread-safe. Must outlive the calls
// it accepts.
template <typename Kind>
class RowsHandler {
 public:
  // `service` must outlive the handler.
  RowsHandler(const CallServices& services, const GemmServices& gemm,
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
};

struct GemmRpc;
struct RunRpc;
using GemmHandler = RowsHandler<GemmRpc>;
using RunHandler = RowsHandler<RunRpc>;

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
  CallRegistry<GemmStreamCall> calls_;
};

class LoadWeightsCall;

// Thread-safe. Must outlive the calls it accepts.
class LoadWeightsHandler {
 public:
  // All must outlive the handler.
  LoadWeightsHandler(const CallServices& services, const UploadParts& parts,
                     UploadTable* table, AsyncQgemm* service,
                     const RpcOptions& options);
  ~LoadWeightsHandler();

  // Waits for one more call on `queue`; each accepted call makes room for the
  // next.
  void Accept(CompletionQueue* queue);

  // Ends every upload in progress with `reason`.
  void EndUploads(const absl::Status& reason);

 private:
  friend class LoadWeightsCall;

  const CallServices services_;
  Backend* const backend_;
  WeightStore* const store_;
  UploadTable* const table_;
  AsyncQgemm* const service_;
  const WeightsLimits limits_;
  UploadPlaces<LoadWeightsCall> uploads_;
  WorkerPool workers_;  // last: its destructor runs what uploads left
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_HANDLERS_H_
