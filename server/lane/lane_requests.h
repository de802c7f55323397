// SPDX-License-Identifier: Apache-2.0
//
// A lane's request from its entry to its completion: the checks of Gemm and
// Run, the scheduler's queue, and an answer in the lane.

#ifndef QGEMM_SERVER_LANE_LANE_REQUESTS_H_
#define QGEMM_SERVER_LANE_LANE_REQUESTS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "base/live_count.h"
#include "base/mutex.h"
#include "base/recycler.h"
#include "base/worker_pool.h"
#include "lane/segment.h"
#include "qgemm/v1/qgemm.pb.h"
#include "server/access/access_control.h"
#include "server/lane/lane_poller.h"
#include "server/metrics/rpc_families.h"
#include "server/metrics/server_metrics.h"
#include "server/net/peer_table.h"
#include "server/programs/program_store.h"
#include "server/rpc/gemm_request_builder.h"
#include "server/scheduling/batch_scheduler.h"
#include "server/weights/weight_store.h"

namespace qgemm {

// Parts of the server that lanes work with; they outlive the lanes.
struct LaneParts {
  Backend* backend = nullptr;
  const WeightStore* store = nullptr;
  const ProgramStore* programs = nullptr;
  BatchScheduler* scheduler = nullptr;
  ServerMetrics* metrics = nullptr;
  const Clock* clock = nullptr;
  PeerTable* peers = nullptr;
  const AccessControl* access = nullptr;  // null: everybody may everything
  // Takes requests whose layers are on the disk; null if none can be.
  ParkedRequests* parked = nullptr;
  bool device_operands = false;  // --allow_device_operands
};

// Thread-safe; Serve on one thread at a time.
class LaneRequests {
 public:
  // Requests that take `slow_request` are logged. Of launches with several
  // requests, `wake_threads` wake the clients that sleep.
  LaneRequests(const LaneParts& parts, absl::Duration slow_request,
               int wake_threads);
  LaneRequests(const LaneRequests&) = delete;
  LaneRequests& operator=(const LaneRequests&) = delete;
  ~LaneRequests();

  // Serves requests that were taken from their lanes, whose slots are claimed:
  // each one's completion is written once, now or later, on any thread. Small
  // ones, and one that is alone, may run within the call.
  void Serve(absl::Span<const LaneArrival> arrivals);

  // From now on requests complete with `refusal`; the first one stays.
  void Refuse(const absl::Status& refusal);

  // Frees what requests that are complete still hold: their lanes.
  void ReleaseEnded();

  // Returns when every request that was served is complete.
  void WaitUntilNone() { live_.WaitUntilNone(); }

 private:
  struct Request;

  // Appends the request to those that are ready, or ends it.
  void Begin(const LaneArrival& arrival, absl::Time now, bool is_alone);
  void EnqueueReady();
  // OK, or what Refuse said.
  absl::Status CheckServing() const;
  // Finds the request's client and handle, checks all of it, and makes it ready
  // for the queue.
  absl::StatusOr<GemmRequestBuilder> Prepare(Request* request);
  absl::StatusOr<GemmRequestBuilder> Parse(Request* request,
                                           const LaneHandle& handle);
  // `ended` is null for a request that was refused here.
  void End(Request* request, const absl::Status& status,
           const GemmTimings& timings, std::unique_ptr<AdmittedRequest> ended);
  LaneAnswer AnswerOf(const Request& request, const absl::Status& status,
                      const GemmTimings& timings);
  void WriteCompletion(const Request& request, const LaneAnswer& answer,
                       int64_t launch_requests);

  const LaneParts parts_;
  const absl::Duration slow_request_;
  const GemmServices services_;
  RpcMethod* const gemms_;
  RpcMethod* const runs_;
  // Messages of the RPCs, filled in from entries: one set of checks, and no
  // allocation. The serving thread's.
  v1::GemmRequest gemm_;
  v1::RunRequest run_;
  std::vector<GemmRequestBuilder> ready_;  // the serving thread's
  // Requests that are not complete, and others to be used again. They allocate
  // nothing, and what they hold goes on the serving thread.
  const std::unique_ptr<Recycler<Request>> requests_;
  LiveCount live_;
  std::atomic<bool> refuses_{false};
  mutable Mutex mutex_;
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  WorkerPool wakers_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_LANE_LANE_REQUESTS_H_
