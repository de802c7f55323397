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
  BatchSink::Finished finished;
  absl::Time start;
  int64_t rows = 0;
};

// How a launch ended, and when.
struct LaunchEnd {
  absl::Status status;
  BatchTimings timings;
  absl::Time time;
};

RowSegment SegmentOf(const GemmRequest& request) {
  const RowRange& range = request.in_launch;
  const MatmulSignature& signature = request.signature;
  const int64_t a_row_bytes = request.weights->k() * SizeOf(signature.a_type);
  const int64_t c_row_bytes = request.weights->n() * SizeOf(signature.c_type);
  return {range.count, request.a.data() + range.first * a_row_bytes,
          request.c.data() + range.first * c_row_bytes};
}

GemmBatch SegmentsOf(const ClosedBatch& closed) {
  const GemmRequest& first = *closed.requests.front();
  GemmBatch batch{first.weights, first.signature, {}};
  batch.segments.reserve(closed.requests.size());
  for (const auto& request : closed.requests) {
    batch.segments.push_back(SegmentOf(*request));
  }
  return batch;
}

void CountLaunch(const Launch& launch, const LaunchEnd& end,
                 ServerMetrics* metrics) {
  if (!end.status.ok()) {
    metrics->LaunchFailed(end.status.code());
    return;
  }
  absl::Time oldest = launch.start;
  for (const auto& request : launch.batch.requests) {
    oldest = std::min(oldest, request->waiting_since());
  }
  LaunchFigures figures;
  figures.rows = launch.rows;
  figures.requests = static_cast<int64_t>(launch.batch.requests.size());
  figures.queue = launch.start - oldest + end.timings.wait;
  figures.kernel = end.timings.kernel;
  metrics->LaunchEnded(figures);
}

// The request's share of the launch's times.
void AddTimings(const Launch& launch, const LaunchEnd& end,
                GemmRequest* request) {
  GemmTimings& sum = request->timings;
  sum.queue += launch.start - request->waiting_since() + end.timings.wait;
  sum.host_to_device += end.timings.host_to_device;
  sum.kernel += end.timings.kernel;
  sum.device_to_host += end.timings.device_to_host;
  sum.launch_rows = std::max(sum.launch_rows, launch.rows);
  sum.launch_requests = std::max(
      sum.launch_requests, static_cast<int64_t>(launch.batch.requests.size()));
  request->last_launch_end = end.time;
}

void CountComputed(const GemmRequest& request, absl::Time now,
                   ServerMetrics* metrics) {
  RequestStages stages;
  stages.queue = request.timings.queue;
  stages.host_to_device = request.timings.host_to_device;
  stages.kernel = request.timings.kernel;
  stages.device_to_host = request.timings.device_to_host;
  stages.total = now - request.arrival;
  metrics->RequestComputed(request.m, stages);
  if (request.is_cancelled()) {
    metrics->RequestWasted(DropReason::kCancelled);
  } else if (now >= request.deadline) {
    metrics->RequestWasted(DropReason::kDeadline);
  }
}

// Ends the request, or returns it if it has rows left.
std::unique_ptr<GemmRequest> EndRequest(std::unique_ptr<GemmRequest> request,
                                        const LaunchEnd& end,
                                        ServerMetrics* metrics) {
  if (end.status.ok()) {
    RowRange& range = request->in_launch;
    range = {range.first + range.count, 0};
    if (request->rows_left() > 0) return request;
    CountComputed(*request, end.time, metrics);
  } else {
    metrics->RequestFailed();
  }
  GemmRequest::Done done = std::move(request->done);
  const GemmTimings timings = request->timings;
  done(end.status, timings, std::move(request));
  return nullptr;
}

// Ends every request, then the launch. Nothing is touched after `finished`:
// the executor may be gone by then.
void EndLaunch(Launch& launch, const LaunchEnd& end, ServerMetrics* metrics) {
  CountLaunch(launch, end, metrics);
  std::unique_ptr<GemmRequest> unfinished;
  for (std::unique_ptr<GemmRequest>& request : launch.batch.requests) {
    AddTimings(launch, end, request.get());
    unfinished = EndRequest(std::move(request), end, metrics);
  }
  std::exchange(launch.finished, nullptr)(std::move(unfinished));
}

}  // namespace

void BatchExecutor::Submit(ClosedBatch batch, Finished finished) {
  CHECK(!batch.requests.empty());
  auto launch = std::make_shared<Launch>();
  launch->batch = std::move(batch);
  launch->finished = std::move(finished);
  launch->start = clock_->Now();
  GemmBatch segments = SegmentsOf(launch->batch);
  launch->rows = segments.rows();
  const absl::Status enqueued = backend_->Enqueue(
      std::move(segments), [launch, clock = clock_, metrics = metrics_](
                               const absl::Status& status,
                               const BatchTimings& timings, GemmBatch ended) {
        // The weights may be the last of theirs: they go before the requests
        // hear of the end.
        ended.weights.reset();
        EndLaunch(*launch, {status, timings, clock->Now()}, metrics);
      });
  if (!enqueued.ok()) {
    EndLaunch(*launch, {enqueued, BatchTimings(), clock_->Now()}, metrics_);
  }
}

}  // namespace qgemm
