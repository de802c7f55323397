// SPDX-License-Identifier: Apache-2.0

#include "server/execution/batch_executor.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/task_runner.h"
#include "server/execution/answer_split.h"

namespace qgemm {

// A batch on its way through the backend. The backend's completion and the
// path of a refused Enqueue end it, whichever comes; never both.
struct BatchExecutor::Launch {
  ClosedBatch batch;
  Finished finished;
  absl::Time start;
  int64_t rows = 0;
  // How it ended, and when.
  absl::Status status;
  BatchTimings timings;
  absl::Time end;
};

namespace {

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

void EndRequest(std::unique_ptr<GemmRequest> request,
                const absl::Status& status, absl::Time now,
                ServerMetrics* metrics) {
  if (status.ok()) {
    CountComputed(*request, now, metrics);
  } else {
    metrics->RequestFailed();
  }
  GemmRequest::Done done = std::move(request->done);
  const GemmTimings timings = request->timings;
  done(status, timings, std::move(request));
}

// Moves every request past its rows; takes out the one that has rows left, if
// there is one.
std::unique_ptr<GemmRequest> TakeUnfinished(ClosedBatch* batch) {
  for (std::unique_ptr<GemmRequest>& request : batch->requests) {
    RowRange& range = request->in_launch;
    range = {range.first + range.count, 0};
  }
  if (batch->requests.front()->rows_left() == 0) return nullptr;
  CHECK(batch->requests.size() == 1);
  std::unique_ptr<GemmRequest> unfinished = std::move(batch->requests.front());
  batch->requests.clear();
  return unfinished;
}

int64_t AnswerBytes(const ClosedBatch& batch) {
  int64_t bytes = 0;
  for (const auto& request : batch.requests) bytes += request->c.size_bytes();
  return bytes;
}

}  // namespace

BatchExecutor::BatchExecutor(Backend* backend, const Clock* clock,
                             ServerMetrics* metrics)
    : backend_(backend), clock_(clock), metrics_(metrics) {}

BatchExecutor::~BatchExecutor() { WaitForAnswers(); }

void BatchExecutor::Submit(ClosedBatch batch, Finished finished) {
  CHECK(!batch.requests.empty());
  auto launch = std::make_shared<Launch>();
  launch->batch = std::move(batch);
  launch->finished = std::move(finished);
  launch->start = clock_->Now();
  GemmBatch segments = SegmentsOf(launch->batch);
  segments.hint = launch->batch.is_alone ? ExecutionHint::kMayRunInline
                                         : ExecutionHint::kAsync;
  launch->rows = segments.rows();
  const absl::Status enqueued = backend_->Enqueue(
      std::move(segments),
      [this, launch](const absl::Status& status, const BatchTimings& timings,
                     GemmBatch ended) {
        // The weights may be the last of theirs: they go before the requests
        // hear of the end.
        ended.weights.reset();
        launch->status = status;
        launch->timings = timings;
        EndLaunch(launch);
      });
  if (enqueued.ok()) return;
  launch->status = enqueued;
  EndLaunch(launch);
}

void BatchExecutor::EndLaunch(const std::shared_ptr<Launch>& launch) {
  launch->end = clock_->Now();
  CountLaunch(*launch);
  for (const auto& request : launch->batch.requests) {
    AddTimings(*launch, request.get());
  }
  std::unique_ptr<GemmRequest> unfinished;
  if (launch->status.ok()) unfinished = TakeUnfinished(&launch->batch);
  const auto requests = static_cast<int64_t>(launch->batch.requests.size());
  if (AnswersInPlace(requests, AnswerBytes(launch->batch))) {
    EndRequests(*launch, {0, requests}, metrics_);
  } else {
    EndAtHome(launch);
  }
  // The executor may be gone after that.
  std::exchange(launch->finished, nullptr)(std::move(unfinished));
}

void BatchExecutor::EndAtHome(const std::shared_ptr<Launch>& launch) {
  auto& requests = launch->batch.requests;
  std::stable_sort(requests.begin(), requests.end(),
                   [](const auto& one, const auto& other) {
                     return std::less<>()(one->home, other->home);
                   });
  const auto count = static_cast<int64_t>(requests.size());
  for (RequestRange range; range.first < count; range.first += range.count) {
    TaskRunner* const home = requests[range.first]->home;
    range.count = 1;
    while (range.count < kMostAnswersATask &&
           range.first + range.count < count &&
           requests[range.first + range.count]->home == home) {
      ++range.count;
    }
    if (home == nullptr) {
      EndRequests(*launch, range, metrics_);
      continue;
    }
    tasks_.Add();
    home->Submit([this, launch, range] {
      EndRequests(*launch, range, metrics_);
      tasks_.Remove();
    });
  }
}

void BatchExecutor::CountLaunch(const Launch& launch) {
  if (!launch.status.ok()) {
    metrics_->LaunchFailed(launch.status.code());
    return;
  }
  absl::Time oldest = launch.start;
  for (const auto& request : launch.batch.requests) {
    oldest = std::min(oldest, request->waiting_since());
  }
  LaunchFigures figures;
  figures.rows = launch.rows;
  figures.requests = static_cast<int64_t>(launch.batch.requests.size());
  figures.queue = launch.start - oldest + launch.timings.wait;
  figures.kernel = launch.timings.kernel;
  metrics_->LaunchEnded(figures);
}

void BatchExecutor::AddTimings(const Launch& launch, GemmRequest* request) {
  GemmTimings& sum = request->timings;
  sum.queue += launch.start - request->waiting_since() + launch.timings.wait;
  sum.host_to_device += launch.timings.host_to_device;
  sum.kernel += launch.timings.kernel;
  sum.device_to_host += launch.timings.device_to_host;
  sum.launch_rows = std::max(sum.launch_rows, launch.rows);
  sum.launch_requests = std::max(
      sum.launch_requests, static_cast<int64_t>(launch.batch.requests.size()));
  request->last_launch_end = launch.end;
}

void BatchExecutor::EndRequests(Launch& launch, const RequestRange& range,
                                ServerMetrics* metrics) {
  for (int64_t i = range.first; i < range.first + range.count; ++i) {
    EndRequest(std::move(launch.batch.requests[i]), launch.status, launch.end,
               metrics);
  }
}

}  // namespace qgemm
