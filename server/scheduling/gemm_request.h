// SPDX-License-Identifier: Apache-2.0
//
// One request, of a product or a program, as the transport hands it to the
// scheduler, and what the scheduler keeps of it until it is complete.

#ifndef QGEMM_SERVER_SCHEDULING_GEMM_REQUEST_H_
#define QGEMM_SERVER_SCHEDULING_GEMM_REQUEST_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/task_runner.h"
#include "kernels/matrix/backend.h"
#include "kernels/programs/program_runner.h"
#include "server/metrics/server_metrics.h"
#include "server/metrics/traffic.h"

namespace qgemm {

struct Weights;  // server/weights/weight_store.h

// Order in which waiting requests are served, lowest first.
enum class Priority : uint8_t { kLow, kNormal, kHigh };

// Bounds of what may wait of one client, beside those of all; 0 = none.
struct ClientQueueQuota {
  int64_t rows = 0;
  int64_t bytes = 0;
};

// Input of the scheduler: filled in by the transport, read only from Enqueue
// until `done` hands it back.
struct AdmittedRequest {
  // Work of a row: a product with weights, or a program.
  std::shared_ptr<const ResidentWeights> weights;  // null for a program
  MatmulSignature signature;
  std::shared_ptr<const CompiledProgram> program;  // null for a product
  // Record of the weights, for the log; may be null.
  std::shared_ptr<const Weights> layer;
  int64_t m = 0;
  StagingLease a;  // [m, k], or the inputs
  StagingLease c;  // [m, n], or the outputs; written by the launches
  absl::Time arrival;
  absl::Time deadline = absl::InfiniteFuture();
  // Peer that fairness and quotas count the request for; the server found it
  // out, the peer cannot choose it. Requests without one share one.
  std::string identity;
  // Bounds of what may wait of that peer, beside those of all.
  ClientQueueQuota quota;
  // Client that fairness counts the request for among those of its identity.
  std::string client;
  RequestTraffic traffic;
  Priority priority = Priority::kNormal;
  // Asks for GemmTimings::ops, of a program.
  bool time_ops = false;
  // False: the thread that enqueues it has more to do than to wait for it.
  bool may_wait = true;
  // Set by the transport when the caller went away; read before execution.
  std::shared_ptr<const std::atomic<bool>> cancelled;

  // Runs exactly once, on any thread, with the request itself so that `c` can
  // be read and sent. Must not block.
  using Done =
      absl::AnyInvocable<void(absl::Status status, const GemmTimings& timings,
                              std::unique_ptr<AdmittedRequest> request)>;
  Done done;
  // Runs `done` of large batches and long answers (batch_dispatcher.h); null:
  // `done` always runs on the launch's thread. Must outlive the request.
  TaskRunner* completion_executor = nullptr;

  // Makes it as new, but for the memory of its strings.
  void Clear() {
    std::string kept_identity = std::move(identity);
    std::string kept_client = std::move(client);
    *this = AdmittedRequest();
    identity = std::move(kept_identity);
    client = std::move(kept_client);
    identity.clear();
    client.clear();
  }

  int64_t operand_bytes() const { return a.size_bytes() + c.size_bytes(); }
  int64_t row_multiply_adds() const {
    return program != nullptr ? program->row_multiply_adds()
                              : weights->n() * weights->k();
  }
  bool is_cancelled() const {
    return cancelled != nullptr && cancelled->load(std::memory_order_acquire);
  }
};

// Rows [first, first + count) of a request.
struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
};

// Progress of a request through its launches. Written by the scheduler and by
// the sink that runs its batches, one at a time.
struct SchedulerState {
  // Rows of the current launch; the rows before them are computed.
  RowRange in_launch;
  // Sums over the launches that have ended, and the end of the last one.
  GemmTimings timings;
  absl::Time last_launch_end = absl::InfinitePast();
};

// A request between Enqueue and `done`. Move-only.
struct ScheduledRequest {
  std::unique_ptr<AdmittedRequest> request;
  SchedulerState state;

  // Rows that no ended launch has computed.
  int64_t rows_left() const { return request->m - state.in_launch.first; }
  // Arrival, or the end of the last launch: the start of the current wait.
  absl::Time waiting_since() const {
    return std::max(request->arrival, state.last_launch_end);
  }
};

// Ends the request: counts it and runs its `done`.
inline void Complete(ScheduledRequest scheduled, absl::Status status) {
  const AdmittedRequest& request = *scheduled.request;
  if (status.ok()) {
    request.traffic.RequestComputed(request.m);
  } else {
    request.traffic.RequestDropped();
  }
  AdmittedRequest::Done done = std::move(scheduled.request->done);
  done(std::move(status), scheduled.state.timings,
       std::move(scheduled.request));
}

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_GEMM_REQUEST_H_
