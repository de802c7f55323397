// SPDX-License-Identifier: Apache-2.0
//
// Runs closed batches on a backend: builds the launch from the requests'
// leases, enqueues it, and ends every request with its share of the timings.

#ifndef QGEMM_SERVER_EXECUTION_BATCH_EXECUTOR_H_
#define QGEMM_SERVER_EXECUTION_BATCH_EXECUTOR_H_

#include "base/clock.h"
#include "kernels/matrix/backend.h"
#include "server/metrics/server_metrics.h"
#include "server/scheduling/batch_scheduler.h"

namespace qgemm {

// Thread-safe. Outlives every batch it was given.
class BatchExecutor final : public BatchSink {
 public:
  // `backend`, `clock` and `metrics` must outlive the executor.
  BatchExecutor(Backend* backend, const Clock* clock, ServerMetrics* metrics)
      : backend_(backend), clock_(clock), metrics_(metrics) {}

  void Submit(ClosedBatch batch, Finished finished) override;

 private:
  Backend* const backend_;
  const Clock* const clock_;
  ServerMetrics* const metrics_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_EXECUTION_BATCH_EXECUTOR_H_
