// SPDX-License-Identifier: Apache-2.0
//
// A Launch is shared by the backend's completion and the posted completions.

#include "server/scheduling/batch_dispatcher.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/prefetch.h"
#include "base/task_runner.h"

namespace qgemm {

// A batch on its way through the backend. Ended exactly once: by the backend's
// completion, by Submit if the backend refused it, or by Fail.
struct BatchDispatcher::Launch {
  // Memory of a request that Fail ended before the backend did.
  struct Kept {
    StagingLease a;
    StagingLease c;
    std::shared_ptr<const ResidentWeights> weights;
    std::shared_ptr<const CompiledProgram> program;
  };

  uint64_t number = 0;
  ClosedBatch batch;
  Finished finished;
  absl::Time start;
  int64_t rows = 0;
  std::atomic<bool> claimed{false};
  // Result, set at the end.
  absl::Status status;
  BatchTimings timings;
  absl::Time end;

  // True for the first that ends the launch.
  bool Claim() { return !claimed.exchange(true); }

  // Takes the requests' memory, unless the backend has ended the launch. The
  // launch keeps itself until it does.
  void KeepMemory(const std::shared_ptr<Launch>& self) {
    MutexLock lock(&mutex);
    if (ended_by_backend) return;
    for (ScheduledRequest& scheduled : batch.requests) {
      AdmittedRequest& request = *scheduled.request;
      kept.push_back({std::move(request.a), std::move(request.c),
                      std::move(request.weights), std::move(request.program)});
    }
    keeper = self;
  }

  void ReleaseMemory() {
    std::vector<Kept> released;
    std::shared_ptr<Launch> released_keeper;
    MutexLock lock(&mutex);
    ended_by_backend = true;
    released.swap(kept);
    released_keeper.swap(keeper);
  }

  Mutex mutex;
  bool ended_by_backend ABSL_GUARDED_BY(mutex) = false;
  std::vector<Kept> kept ABSL_GUARDED_BY(mutex);
  std::shared_ptr<Launch> keeper ABSL_GUARDED_BY(mutex);
};

namespace {

// Interval at which a drain looks for launches in flight.
constexpr absl::Duration kLaunchPollInterval = absl::Milliseconds(5);

RowSegment SegmentOf(const ScheduledRequest& scheduled) {
  const AdmittedRequest& request = *scheduled.request;
  const RowRange& range = scheduled.state.in_launch;
  const MatmulSignature& signature = request.signature;
  const int64_t a_row_bytes = request.weights->k() * SizeOf(signature.a_type);
  const int64_t c_row_bytes = request.weights->n() * SizeOf(signature.c_type);
  return {range.count, request.a.data() + range.first * a_row_bytes,
          request.c.data() + range.first * c_row_bytes, request.m};
}

GemmBatch ToGemmBatch(const ClosedBatch& closed) {
  const AdmittedRequest& first = *closed.requests.front().request;
  GemmBatch batch{first.weights, first.signature, {}};
  batch.segments.reserve(closed.requests.size());
  for (const ScheduledRequest& scheduled : closed.requests) {
    batch.segments.push_back(SegmentOf(scheduled));
  }
  batch.hint = closed.hint;
  return batch;
}

ProgramBatch ToProgramBatch(const ClosedBatch& closed) {
  const AdmittedRequest& first = *closed.requests.front().request;
  ProgramBatch batch{first.program, {}};
  batch.time_ops = first.time_ops;
  batch.segments.reserve(closed.requests.size());
  for (const ScheduledRequest& scheduled : closed.requests) {
    const AdmittedRequest& request = *scheduled.request;
    const RowRange& range = scheduled.state.in_launch;
    batch.segments.push_back({request.m, range.first, range.count,
                              request.a.data(), request.c.data()});
  }
  batch.hint = closed.hint;
  return batch;
}

int64_t RowsOf(const ClosedBatch& closed) {
  int64_t rows = 0;
  for (const ScheduledRequest& scheduled : closed.requests) {
    rows += scheduled.state.in_launch.count;
  }
  return rows;
}

// Counts requests whose launch ended at `now`.
void CountComputed(absl::Span<const ScheduledRequest> requests, absl::Time now,
                   ServerMetrics* metrics) {
  int64_t rows = 0;
  absl::InlinedVector<const GemmTimings*, 64> timings;
  for (const ScheduledRequest& scheduled : requests) {
    const AdmittedRequest& request = *scheduled.request;
    rows += request.m;
    timings.push_back(&scheduled.state.timings);
    if (request.is_cancelled()) {
      metrics->RequestWasted(DropReason::kCancelled);
    } else if (now >= request.deadline) {
      metrics->RequestWasted(DropReason::kDeadline);
    }
  }
  metrics->RequestsComputed(rows, timings);
}

// Advances every request past its computed rows; takes out the one that has
// rows left, if any.
std::optional<ScheduledRequest> TakeUnfinished(ClosedBatch* batch) {
  for (ScheduledRequest& scheduled : batch->requests) {
    RowRange& range = scheduled.state.in_launch;
    range = {range.first + range.count, 0};
  }
  if (batch->requests.front().rows_left() == 0) return std::nullopt;
  CHECK(batch->requests.size() == 1);
  ScheduledRequest unfinished = std::move(batch->requests.front());
  batch->requests.clear();
  return unfinished;
}

int64_t AnswerBytes(const ClosedBatch& batch) {
  int64_t bytes = 0;
  for (const ScheduledRequest& scheduled : batch.requests) {
    bytes += scheduled.request->c.size_bytes();
  }
  return bytes;
}

TaskRunner* ExecutorOf(const ScheduledRequest& scheduled) {
  return scheduled.request->completion_executor;
}

}  // namespace

BatchDispatcher::BatchDispatcher(Backend* backend, const Clock* clock,
                                 ServerMetrics* metrics)
    : backend_(backend), clock_(clock), metrics_(metrics) {}

BatchDispatcher::~BatchDispatcher() { WaitForCompletions(); }

void BatchDispatcher::Submit(ClosedBatch batch, Finished finished) {
  CHECK(!batch.requests.empty());
  auto launch = std::make_shared<Launch>();
  launch->batch = std::move(batch);
  launch->finished = std::move(finished);
  launch->start = clock_->Now();
  launch->rows = RowsOf(launch->batch);
  absl::Status refused = Enter(launch);
  if (refused.ok()) refused = Enqueue(launch);
  if (refused.ok()) return;
  if (!launch->Claim()) return launch->ReleaseMemory();
  EndLaunch(launch, {std::move(refused), {}});
}

absl::Status BatchDispatcher::Enqueue(const std::shared_ptr<Launch>& launch) {
  auto completion = [this, launch](const absl::Status& status,
                                   const BatchTimings& timings, auto ended) {
    // Released before the requests complete: this may be the last reference to
    // unloaded weights.
    ended = {};
    // The dispatcher may be gone if Fail ended the launch.
    if (!launch->Claim()) return launch->ReleaseMemory();
    EndLaunch(launch, {status, timings});
  };
  if (launch->batch.requests.front().request->program == nullptr) {
    return backend_->Enqueue(ToGemmBatch(launch->batch), std::move(completion));
  }
  return backend_->programs()->EnqueueProgram(ToProgramBatch(launch->batch),
                                              std::move(completion));
}

absl::Status BatchDispatcher::Enter(const std::shared_ptr<Launch>& launch) {
  MutexLock lock(&mutex_);
  if (!failure_.ok()) return failure_;
  launch->number = ++launches_;
  in_flight_.push_back(launch);
  return absl::OkStatus();
}

void BatchDispatcher::Leave(const Launch* launch) {
  MutexLock lock(&mutex_);
  const auto found =
      std::find_if(in_flight_.begin(), in_flight_.end(),
                   [&](const auto& other) { return other.get() == launch; });
  if (found != in_flight_.end()) in_flight_.erase(found);
}

std::optional<LaunchInFlight> BatchDispatcher::OldestLaunch() const {
  MutexLock lock(&mutex_);
  if (in_flight_.empty()) return std::nullopt;
  return LaunchInFlight{in_flight_.front()->number, in_flight_.front()->start};
}

bool BatchDispatcher::WaitForLaunches(absl::Time deadline) const {
  while (OldestLaunch().has_value()) {
    if (clock_->Now() >= deadline) return false;
    absl::SleepFor(kLaunchPollInterval);
  }
  return true;
}

void BatchDispatcher::Fail(const absl::Status& status) {
  std::vector<std::shared_ptr<Launch>> launches;
  {
    MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = status;
    launches = in_flight_;
  }
  for (const std::shared_ptr<Launch>& launch : launches) {
    if (launch->Claim()) Abandon(launch, status);
  }
}

void BatchDispatcher::Abandon(const std::shared_ptr<Launch>& launch,
                              const absl::Status& status) {
  Leave(launch.get());
  TakeEnd({status, {}}, launch.get());
  launch->KeepMemory(launch);
  const auto requests = static_cast<int64_t>(launch->batch.requests.size());
  CompleteRequests(*launch, {0, requests}, metrics_);
  std::exchange(launch->finished, nullptr)(std::nullopt);
}

void BatchDispatcher::TakeEnd(LaunchEnd end, Launch* launch) {
  // Written last by the threads that brought them.
  for (const ScheduledRequest& scheduled : launch->batch.requests) {
    PrefetchToWrite(scheduled.request.get());
  }
  launch->status = std::move(end.status);
  launch->timings = std::move(end.timings);
  launch->end = clock_->Now();
  CountLaunch(*launch);
  for (ScheduledRequest& scheduled : launch->batch.requests) {
    AddTimings(*launch, &scheduled);
  }
}

void BatchDispatcher::EndLaunch(const std::shared_ptr<Launch>& launch,
                                LaunchEnd end) {
  Leave(launch.get());
  TakeEnd(std::move(end), launch.get());
  std::optional<ScheduledRequest> unfinished;
  if (launch->status.ok()) unfinished = TakeUnfinished(&launch->batch);
  const auto requests = static_cast<int64_t>(launch->batch.requests.size());
  if (CompletesInline(requests, AnswerBytes(launch->batch))) {
    CompleteRequests(*launch, {0, requests}, metrics_);
    // The dispatcher may be gone after that.
    std::exchange(launch->finished, nullptr)(std::move(unfinished));
    return;
  }
  posted_.Add();
  const int64_t own = PostCompletions(launch);
  // The device begins with the next launch meanwhile.
  std::exchange(launch->finished, nullptr)(std::move(unfinished));
  CompleteRequests(*launch, {0, own}, metrics_);
  posted_.Remove();
}

int64_t BatchDispatcher::PostCompletions(
    const std::shared_ptr<Launch>& launch) {
  auto& requests = launch->batch.requests;
  const auto others = std::stable_partition(
      requests.begin(), requests.end(), [](const ScheduledRequest& scheduled) {
        return ExecutorOf(scheduled) == nullptr;
      });
  std::stable_sort(others, requests.end(),
                   [](const auto& one, const auto& other) {
                     return std::less<>()(ExecutorOf(one), ExecutorOf(other));
                   });
  const auto count = static_cast<int64_t>(requests.size());
  const int64_t own = others - requests.begin();
  for (RequestRange range = {own, 0}; range.first < count;
       range.first += range.count) {
    TaskRunner* const executor = ExecutorOf(requests[range.first]);
    range.count = 1;
    while (range.count < kMaxCompletionsPerTask &&
           range.first + range.count < count &&
           ExecutorOf(requests[range.first + range.count]) == executor) {
      ++range.count;
    }
    posted_.Add();
    executor->Submit([this, launch, range] {
      CompleteRequests(*launch, range, metrics_);
      posted_.Remove();
    });
  }
  return own;
}

void BatchDispatcher::CountLaunch(const Launch& launch) {
  if (!launch.status.ok()) {
    metrics_->LaunchFailed(launch.status.code());
    return;
  }
  absl::Time oldest = launch.start;
  for (const ScheduledRequest& scheduled : launch.batch.requests) {
    oldest = std::min(oldest, scheduled.waiting_since());
  }
  LaunchFigures figures;
  figures.rows = launch.rows;
  figures.requests = static_cast<int64_t>(launch.batch.requests.size());
  figures.queue = launch.start - oldest + launch.timings.wait;
  figures.kernel = launch.timings.kernel;
  metrics_->LaunchEnded(figures);
}

void BatchDispatcher::AddTimings(const Launch& launch,
                                 ScheduledRequest* scheduled) {
  GemmTimings& sum = scheduled->state.timings;
  sum.queue += launch.start - scheduled->waiting_since() + launch.timings.wait;
  sum.host_to_device += launch.timings.host_to_device;
  sum.kernel += launch.timings.kernel;
  sum.device_to_host += launch.timings.device_to_host;
  sum.total = launch.end - scheduled->request->arrival;
  sum.launch_rows = std::max(sum.launch_rows, launch.rows);
  sum.launch_requests = std::max(
      sum.launch_requests, static_cast<int64_t>(launch.batch.requests.size()));
  const std::vector<absl::Duration>& ops = launch.timings.ops;
  sum.ops.resize(std::max(sum.ops.size(), ops.size()));
  for (size_t op = 0; op < ops.size(); ++op) sum.ops[op] += ops[op];
  scheduled->state.last_launch_end = launch.end;
}

void BatchDispatcher::CompleteRequests(Launch& launch,
                                       const RequestRange& range,
                                       ServerMetrics* metrics) {
  const absl::Span<ScheduledRequest> requests =
      absl::MakeSpan(launch.batch.requests).subspan(range.first, range.count);
  if (launch.status.ok()) CountComputed(requests, launch.end, metrics);
  for (ScheduledRequest& scheduled : requests) {
    if (!launch.status.ok()) metrics->RequestFailed();
    Complete(std::move(scheduled), launch.status);
  }
}

}  // namespace qgemm
