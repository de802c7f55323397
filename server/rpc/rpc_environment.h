// SPDX-License-Identifier: Apache-2.0
//
// What every handler works with.

#ifndef QGEMM_SERVER_RPC_RPC_ENVIRONMENT_H_
#define QGEMM_SERVER_RPC_RPC_ENVIRONMENT_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/task_runner.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/backend.h"
#include "qgemm/v1/qgemm.grpc.pb.h"
#include "server/metrics/server_metrics.h"
#include "server/rpc/data_path.h"
#include "server/rpc/live_calls.h"
#include "server/rpc/stream_ledger.h"
#include "server/scheduling/batch_scheduler.h"
#include "server/weights/weight_store.h"

namespace qgemm {

// Every RPC of the service, asynchronous; Gemm and GemmStream take and give
// bytes, which proto/payload_message.h reads and writes.
using AsyncQgemm = v1::Qgemm::WithAsyncMethod_LoadWeights<
    v1::Qgemm::WithRawMethod_Gemm<v1::Qgemm::WithRawMethod_GemmStream<
        v1::Qgemm::WithAsyncMethod_UnloadWeights<
            v1::Qgemm::WithAsyncMethod_ListWeights<
                v1::Qgemm::WithAsyncMethod_GetWeights<
                    v1::Qgemm::WithAsyncMethod_GetServerInfo<
                        v1::Qgemm::Service>>>>>>>;

struct RpcOptions {
  int64_t max_message_bytes = int64_t{64} << 20;
  WeightsLimits weights_limits;
  StreamLimits stream;
  // The scheduler's bound; no request beyond it can ever be queued.
  int64_t max_queued_bytes = int64_t{1} << 30;
  // Uploads at one time; each holds a few chunks and a builder.
  int max_uploads = 4;
  // Completion queues, each with a thread.
  int completion_queues = 2;
  // Threads for answers that would hold up a queue's.
  int answer_threads = 1;
  DataPath data_path = DataPath::kRaw;
  // RPCs for tests and measurements (debug_service.h).
  bool enable_echo = false;
  bool enable_freeze = false;
  std::string version;
};

// All of it must outlive the handlers.
struct RpcEnvironment {
  RpcOptions options;
  Backend* backend = nullptr;
  WeightStore* store = nullptr;
  BatchScheduler* scheduler = nullptr;
  ServerMetrics* metrics = nullptr;
  const Clock* clock = nullptr;
  LiveCalls* live_calls = nullptr;
  // Completion executor of requests whose answers are long, and of streams.
  TaskRunner* answerers = nullptr;
  AsyncQgemm* service = nullptr;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_RPC_ENVIRONMENT_H_
