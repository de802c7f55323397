// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/batch_scheduler.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"

namespace qgemm {
namespace {

// How often a drain and a hold look at the clock, which may not be the
// system's.
constexpr absl::Duration kDrainPollInterval = absl::Milliseconds(5);
constexpr absl::Duration kHoldPollInterval = absl::Milliseconds(1);

using RequestPtr = std::unique_ptr<GemmRequest>;

int64_t OperandBytes(const GemmRequest& request) {
  return request.a.size_bytes() + request.c.size_bytes();
}

void End(RequestPtr request, const absl::Status& status) {
  GemmRequest::Done done = std::move(request->done);
  done(status, GemmTimings(), std::move(request));
}

// A request that ends without a launch: why, and under which metric.
struct Dropped {
  RequestPtr request;
  absl::Status status;
  const char* reason;
};

void EndAll(std::vector<Dropped> dropped, ServerMetrics* metrics) {
  for (Dropped& entry : dropped) {
    metrics->RequestDropped(entry.reason);
    End(std::move(entry.request), entry.status);
  }
}

absl::Status Draining() {
  return absl::UnavailableError(
      "the server is draining and takes no more requests");
}

absl::Status DrainEnded() {
  return absl::UnavailableError(
      "the server stopped before the request's turn came");
}

absl::Status DeadlinePassed(const GemmRequest& request, absl::Time now) {
  return absl::DeadlineExceededError(absl::StrCat(
      "the deadline passed ", absl::FormatDuration(now - request.deadline),
      " ago, after the request had waited ",
      absl::FormatDuration(now - request.arrival),
      " for a launch; nothing was computed"));
}

bool IsCancelled(const GemmRequest& request) {
  return request.cancelled != nullptr &&
         request.cancelled->load(std::memory_order_acquire);
}

}  // namespace

class BatchScheduler::State : public std::enable_shared_from_this<State> {
 public:
  State(const SchedulerOptions& options, BatchSink* sink, const Clock* clock,
        ServerMetrics* metrics)
      : options_(options), sink_(sink), clock_(clock), metrics_(metrics) {}

  void Enqueue(RequestPtr request);
  void HoldLaunches(absl::Time until);
  void Drain(absl::Time deadline);
  void Stop();

  // The dispatcher thread's life.
  void Run();

 private:
  // What the dispatcher does next, outside the lock.
  struct Work {
    std::vector<Dropped> dropped;
    ClosedBatch batch;
  };

  Dropped Refusal(const GemmRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns when a launch may start, or the scheduler stops.
  void AwaitTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool CanDispatch() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !queue_.empty() && launches_ < options_.max_launches_in_flight;
  }
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queue_.empty() && launches_ == 0 && !ending_dropped_;
  }
  Work TakeWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Fills waiting_ from the head of the queue; what must not run is moved to
  // `dropped`.
  void LookAhead(std::vector<Dropped>* dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  RequestPtr TakeAt(std::deque<RequestPtr>::iterator* position)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DroppedEnded();
  void LaunchFinished();
  std::vector<Dropped> TakeQueue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ShowDepth() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    metrics_->SetQueueDepth(static_cast<int64_t>(queue_.size()), queued_bytes_);
  }

  const SchedulerOptions options_;
  BatchSink* const sink_;
  const Clock* const clock_;
  ServerMetrics* const metrics_;

  Mutex mutex_;
  CondVar work_changed_;  // for the dispatcher
  CondVar idle_changed_;  // for drains
  std::deque<RequestPtr> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int launches_ ABSL_GUARDED_BY(mutex_) = 0;
  // The dispatcher is in the `done` of requests that it took off the queue.
  bool ending_dropped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time hold_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // The policy's view; a member so that it keeps its memory.
  std::vector<WaitingRequest> waiting_ ABSL_GUARDED_BY(mutex_);
};

// Why the request cannot be queued; a null reason if it can.
Dropped BatchScheduler::State::Refusal(const GemmRequest& request) const {
  if (draining_) return {nullptr, Draining(), "draining"};
  if (static_cast<int64_t>(queue_.size()) >= options_.max_queued_requests) {
    return {nullptr,
            absl::ResourceExhaustedError(
                absl::StrCat("the queue is full: ", queue_.size(),
                             " requests wait, the limit is ",
                             options_.max_queued_requests, "; retry later")),
            "queue_full"};
  }
  if (OperandBytes(request) > options_.max_queued_bytes - queued_bytes_) {
    return {
        nullptr,
        absl::ResourceExhaustedError(absl::StrCat(
            "the queue is full: ", queued_bytes_,
            " operand bytes wait and the request has ", OperandBytes(request),
            ", the limit is ", options_.max_queued_bytes, "; retry later")),
        "queue_full"};
  }
  return {nullptr, absl::OkStatus(), nullptr};
}

void BatchScheduler::State::Enqueue(RequestPtr request) {
  CHECK(request != nullptr && request->done != nullptr);
  Dropped refusal;
  {
    MutexLock lock(&mutex_);
    refusal = Refusal(*request);
    if (refusal.reason == nullptr) {
      queued_bytes_ += OperandBytes(*request);
      queue_.push_back(std::move(request));
      ShowDepth();
      work_changed_.Signal();
      return;
    }
  }
  metrics_->RequestDropped(refusal.reason);
  End(std::move(request), refusal.status);
}

void BatchScheduler::State::HoldLaunches(absl::Time until) {
  MutexLock lock(&mutex_);
  if (!draining_) hold_until_ = std::max(hold_until_, until);
}

void BatchScheduler::State::AwaitTurn() {
  while (!stopping_) {
    if (!CanDispatch()) {
      work_changed_.Wait(&mutex_);
      continue;
    }
    const absl::Duration held = hold_until_ - clock_->Now();
    if (held <= absl::ZeroDuration()) return;
    work_changed_.WaitFor(&mutex_, std::min(held, kHoldPollInterval));
  }
}

void BatchScheduler::State::Run() {
  while (true) {
    Work work;
    {
      MutexLock lock(&mutex_);
      AwaitTurn();
      if (!CanDispatch()) return;
      work = TakeWork();
    }
    if (!work.dropped.empty()) {
      EndAll(std::move(work.dropped), metrics_);
      DroppedEnded();
    }
    if (work.batch.requests.empty()) continue;
    sink_->Submit(std::move(work.batch),
                  [self = shared_from_this()] { self->LaunchFinished(); });
  }
}

BatchScheduler::State::Work BatchScheduler::State::TakeWork() {
  Work work;
  LookAhead(&work.dropped);
  const std::vector<int64_t> chosen = NextBatch(waiting_, options_.batching);
  for (size_t taken = 0; taken < chosen.size(); ++taken) {
    auto position = queue_.begin() + (chosen[taken] - taken);
    work.batch.requests.push_back(TakeAt(&position));
  }
  if (!chosen.empty()) ++launches_;
  ending_dropped_ = !work.dropped.empty();
  ShowDepth();
  return work;
}

void BatchScheduler::State::LookAhead(std::vector<Dropped>* dropped) {
  const BatchingOptions& batching = options_.batching;
  const int64_t depth =
      batching.max_requests > 1 ? std::max<int64_t>(1, batching.lookahead) : 1;
  const absl::Time now = clock_->Now();
  waiting_.clear();
  auto position = queue_.begin();
  while (position != queue_.end() &&
         static_cast<int64_t>(waiting_.size()) < depth) {
    const GemmRequest& request = **position;
    if (IsCancelled(request)) {
      dropped->push_back({TakeAt(&position),
                          absl::CancelledError("the caller went away"),
                          "cancelled"});
    } else if (now >= request.deadline) {
      const absl::Status status = DeadlinePassed(request, now);
      dropped->push_back({TakeAt(&position), status, "deadline"});
    } else {
      waiting_.push_back({request.weights.get(), request.signature, request.m});
      ++position;
    }
  }
}

// Takes a request off the queue and moves `position` to the one behind it.
RequestPtr BatchScheduler::State::TakeAt(
    std::deque<RequestPtr>::iterator* position) {
  RequestPtr request = std::move(**position);
  queued_bytes_ -= OperandBytes(*request);
  *position = queue_.erase(*position);
  return request;
}

void BatchScheduler::State::DroppedEnded() {
  MutexLock lock(&mutex_);
  ending_dropped_ = false;
  if (Idle()) idle_changed_.SignalAll();
}

void BatchScheduler::State::LaunchFinished() {
  MutexLock lock(&mutex_);
  --launches_;
  work_changed_.Signal();
  if (Idle()) idle_changed_.SignalAll();
}

void BatchScheduler::State::Drain(absl::Time deadline) {
  std::vector<Dropped> late;
  {
    MutexLock lock(&mutex_);
    draining_ = true;
    hold_until_ = absl::InfinitePast();
    work_changed_.Signal();
    while (!Idle() && clock_->Now() < deadline) {
      idle_changed_.WaitFor(&mutex_, kDrainPollInterval);
    }
    late = TakeQueue();
  }
  EndAll(std::move(late), metrics_);
}

std::vector<Dropped> BatchScheduler::State::TakeQueue() {
  std::vector<Dropped> taken;
  while (!queue_.empty()) {
    taken.push_back({std::move(queue_.front()), DrainEnded(), "draining"});
    queue_.pop_front();
  }
  queued_bytes_ = 0;
  ShowDepth();
  return taken;
}

void BatchScheduler::State::Stop() {
  MutexLock lock(&mutex_);
  stopping_ = true;
  work_changed_.Signal();
}

BatchScheduler::BatchScheduler(const SchedulerOptions& options, BatchSink* sink,
                               const Clock* clock, ServerMetrics* metrics)
    : state_(std::make_shared<State>(options, sink, clock, metrics)),
      dispatcher_([state = state_.get()] { state->Run(); }) {}

BatchScheduler::~BatchScheduler() {
  Drain(absl::InfiniteFuture());
  state_->Stop();
  dispatcher_.join();
}

void BatchScheduler::Enqueue(std::unique_ptr<GemmRequest> request) {
  state_->Enqueue(std::move(request));
}

void BatchScheduler::HoldLaunches(absl::Time until) {
  state_->HoldLaunches(until);
}

void BatchScheduler::Drain(absl::Time deadline) { state_->Drain(deadline); }

}  // namespace qgemm
