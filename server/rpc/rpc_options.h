// SPDX-License-Identifier: Apache-2.0
//
// Settings of the transport, and the service as gRPC generates it.

#ifndef QGEMM_SERVER_RPC_RPC_OPTIONS_H_
#define QGEMM_SERVER_RPC_RPC_OPTIONS_H_

#include <cstdint>
#include <limits>
#include <string>

#include "kernels/formats/weights_spec.h"
#include "qgemm/v1/qgemm.grpc.pb.h"
#include "rpc/message_limits.h"
#include "server/rpc/idle_sweeper.h"
#include "server/rpc/stream_ledger.h"

namespace qgemm {

// Every RPC of the service, asynchronous. All take and give bytes, so that
// messages are bounded before they are parsed (rpc/payload_message.h).
using AsyncPrograms =
    v1::Qgemm::WithRawMethod_LoadProgram<v1::Qgemm::WithRawMethod_UnloadProgram<
        v1::Qgemm::WithRawMethod_ListPrograms<
            v1::Qgemm::WithRawMethod_GetProgram<
                v1::Qgemm::WithRawMethod_Run<v1::Qgemm::Service>>>>>;
using AsyncWeights =
    v1::Qgemm::WithRawMethod_LoadWeights<v1::Qgemm::WithRawMethod_QueryUpload<
        v1::Qgemm::WithRawMethod_FindMissingWeights<
            v1::Qgemm::WithRawMethod_PinWeights<
                v1::Qgemm::WithRawMethod_TouchWeights<
                    v1::Qgemm::WithRawMethod_UnloadWeights<
                        v1::Qgemm::WithRawMethod_ListWeights<
                            v1::Qgemm::WithRawMethod_GetWeights<
                                AsyncPrograms>>>>>>>>;
using AsyncQgemm =
    v1::Qgemm::WithRawMethod_Gemm<v1::Qgemm::WithRawMethod_GemmStream<
        v1::Qgemm::WithRawMethod_GetServerInfo<AsyncWeights>>>;

struct RpcOptions {
  int64_t max_message_bytes = kDefaultMaxMessageBytes;
  WeightsLimits weights_limits;
  StreamLimits stream;
  // The scheduler's bound; no request beyond it can ever be queued.
  int64_t max_queued_bytes = int64_t{1} << 30;
  // Operand bytes that the requests and unread answers of one client hold.
  int64_t max_client_staging_bytes = std::numeric_limits<int64_t>::max();
  // GemmStreams at one time.
  int max_streams = 2048;
  // Least progress of uploads, operands in part and answers.
  ProgressLimits progress;
  // Uploads at one time; each holds a few chunks and a builder.
  int max_uploads = 4;
  // The server has services of gRPC's own, which need the right to debug where
  // there is an access table.
  bool has_grpc_services = false;
  // Time for which an upload that was cut off can be continued; 0: none can.
  absl::Duration upload_linger = absl::Minutes(2);
  // Completion queues, each with a thread.
  int completion_queues = 2;
  // Threads for answers that would hold up a queue's.
  int answer_threads = 1;
  // RPCs for tests and measurements (debug_service.h).
  absl::Duration slow_request;  // to log; 0 = none
  bool enable_echo = false;
  bool enable_freeze = false;
  bool enable_faults = false;
  std::string version;
  // Path of the lanes' socket, for clients of this host; empty: there is none.
  std::string lane_path;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_RPC_OPTIONS_H_
