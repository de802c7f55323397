// SPDX-License-Identifier: Apache-2.0
//
// Runs closed batches on a backend: builds the launch from the requests'
// leases, enqueues it, and ends every request with its share of the timings.
// To end a request is to send its answer, which takes longer than a launch of
// few rows: where there are several to send, or long ones, the requests' homes
// do it and the next launch does not wait for them.

#ifndef QGEMM_SERVER_EXECUTION_BATCH_EXECUTOR_H_
#define QGEMM_SERVER_EXECUTION_BATCH_EXECUTOR_H_

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/live_count.h"
#include "kernels/matrix/backend.h"
#include "server/metrics/server_metrics.h"
#include "server/scheduling/batch_scheduler.h"

namespace qgemm {

// Thread-safe. Must outlive every launch it was given; the destructor waits for
// the requests that homes have yet to end.
class BatchExecutor final : public BatchSink {
 public:
  // `backend`, `clock` and `metrics` must outlive the executor.
  BatchExecutor(Backend* backend, const Clock* clock, ServerMetrics* metrics);
  ~BatchExecutor() override;

  void Submit(ClosedBatch batch, Finished finished) override;

  // Returns when every request of the launches that have ended has ended too.
  void WaitForAnswers() { tasks_.WaitUntilNone(); }

 private:
  struct Launch;
  // Requests [first, first + count) of a launch.
  struct RequestRange {
    int64_t first = 0;
    int64_t count = 0;
  };

  // Ends the requests, or has them ended, then the launch.
  void EndLaunch(const std::shared_ptr<Launch>& launch);
  // Has each request ended by its home.
  void EndAtHome(const std::shared_ptr<Launch>& launch);
  void CountLaunch(const Launch& launch);
  // The request's share of the launch's times.
  static void AddTimings(const Launch& launch, GemmRequest* request);
  static void EndRequests(Launch& launch, const RequestRange& range,
                          ServerMetrics* metrics);

  Backend* const backend_;
  const Clock* const clock_;
  ServerMetrics* const metrics_;
  LiveCount tasks_;  // of homes, not yet done
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_EXECUTION_BATCH_EXECUTOR_H_
