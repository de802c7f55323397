// SPDX-License-Identifier: Apache-2.0

#include "server/execution/batch_executor.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"

namespace qgemm {
namespace {

// A batch on its way through the backend. The backend's completion and the
// path of a refused Enqueue end it, whichever comes; never both.
struct Launch {
  ClosedBatch batch;
  absl::AnyInvocable<void()> finished;
  absl::Time start;
  int64_t rows = 0;
};

GemmBatch SegmentsOf(const ClosedBatch& closed) {
  const GemmRequest& first = *closed.requests.front();
  GemmBatch batch{first.weights, first.signature, {}};
  batch.segments.reserve(closed.requests.size());
  for (const auto& request : closed.requests) {
    batch.segments.push_back(
        {request->m, request->a.data(), request->c.data()});
  }
  return batch;
}

void CountLaunch(const Launch& launch, const absl::Status& status,
                 const BatchTimings& timings, ServerMetrics* metrics) {
  if (!status.ok()) {
    metrics->LaunchFailed(status.code());
    return;
  }
  absl::Time oldest = launch.start;
  for (const auto& request : launch.batch.requests) {
    oldest = std::min(oldest, request->arrival);
  }
  metrics->LaunchEnded(launch.rows,
                       static_cast<int64_t>(launch.batch.requests.size()),
                       launch.start - oldest + timings.wait, timings.kernel);
}

void EndRequests(Launch& launch, const absl::Status& status,
                 const BatchTimings& timings) {
  GemmTimings told;
  told.host_to_device = timings.host_to_device;
  told.kernel = timings.kernel;
  told.device_to_host = timings.device_to_host;
  told.launch_rows = launch.rows;
  told.launch_requests = static_cast<int64_t>(launch.batch.requests.size());
  for (std::unique_ptr<GemmRequest>& request : launch.batch.requests) {
    told.queue = launch.start - request->arrival + timings.wait;
    GemmRequest::Done done = std::move(request->done);
    done(status, told, std::move(request));
  }
}

// Ends every request, then the launch. Nothing is touched after `finished`:
// the executor may be gone by then.
void EndLaunch(Launch& launch, const absl::Status& status,
               const BatchTimings& timings, ServerMetrics* metrics) {
  CountLaunch(launch, status, timings, metrics);
  EndRequests(launch, status, timings);
  std::exchange(launch.finished, nullptr)();
}

}  // namespace

void BatchExecutor::Submit(ClosedBatch batch,
                           absl::AnyInvocable<void()> finished) {
  CHECK(!batch.requests.empty());
  auto launch = std::make_shared<Launch>();
  launch->batch = std::move(batch);
  launch->finished = std::move(finished);
  launch->start = clock_->Now();
  GemmBatch segments = SegmentsOf(launch->batch);
  launch->rows = segments.rows();
  ServerMetrics* const metrics = metrics_;
  const absl::Status enqueued = backend_->Enqueue(
      std::move(segments),
      [launch, metrics](const absl::Status& status, const BatchTimings& timings,
                        GemmBatch ended) {
        // The weights may be the last of theirs: they go before the requests
        // hear of the end.
        ended.weights.reset();
        EndLaunch(*launch, status, timings, metrics);
      });
  if (!enqueued.ok()) EndLaunch(*launch, enqueued, BatchTimings(), metrics);
}

}  // namespace qgemm
