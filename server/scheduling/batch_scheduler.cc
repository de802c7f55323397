// SPDX-License-Identifier: Apache-2.0
//
// Launches are started by the thread that made them possible: no thread has to
// wake up between a request and its launch, between two launches, or between a
// launch and its end if it is alone. One thread starts those that waited for
// something in vain.

#include "server/scheduling/batch_scheduler.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/check.h"
#include "base/mutex.h"
#include "server/scheduling/dropped_request.h"

namespace qgemm {
namespace {

// Intervals at which a drain and a wait read the clock, which may not be the
// system's.
constexpr absl::Duration kDrainPollInterval = absl::Milliseconds(5);
constexpr absl::Duration kWaitPollInterval = absl::Milliseconds(1);
// Minimum time between sweeps of a full queue, which visit every request.
constexpr absl::Duration kSweepInterval = absl::Milliseconds(10);

Refusal Draining() {
  return {absl::UnavailableError(
              "the server is draining and takes no more requests; retry on "
              "another replica"),
          DropReason::kDraining};
}

// Permission of the thread that brought a batch which is alone. Waiting for a
// device pays where one request waits: more of them are better off if the
// thread looks for others meanwhile.
ExecutionHint HintOf(const ClosedBatch& batch) {
  return batch.requests.size() == 1 && batch.requests.front().request->may_wait
             ? ExecutionHint::kMayRunInline
             : ExecutionHint::kMayCompute;
}

}  // namespace

class BatchScheduler::State : public std::enable_shared_from_this<State> {
 public:
  State(const SchedulerOptions& options, BatchSink* sink, const Clock* clock,
        ServerMetrics* metrics)
      : sink_(sink), clock_(clock), metrics_(metrics), planner_(options) {}

  absl::Status CheckRoom(const QueueDemand& demand);
  void EnqueueAll(absl::Span<std::unique_ptr<AdmittedRequest>> requests);
  void HoldLaunches(absl::Time until);
  void Drain(absl::Time deadline);
  void Stop();

  // Starts launches that have waited long enough, until Stop.
  void EndWaits();

 private:
  // A request without room.
  struct Refused {
    std::unique_ptr<AdmittedRequest> request;
    Refusal refusal;
  };
  // Work of one Pump step, done outside the lock.
  struct Work {
    DroppedRequests dropped;
    PlannedLaunch launch;

    bool empty() const {
      return dropped.empty() && launch.batch.requests.empty();
    }
  };

  // Sweeps the queue first if it is full.
  Refusal CheckRoom(const QueueDemand& demand, DroppedRequests* dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the request if there is room for it; returns true if it did.
  bool Admit(std::unique_ptr<AdmittedRequest>* request,
             DroppedRequests* dropped, std::vector<Refused>* refused)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CompleteRefused(absl::Span<Refused> refused);
  // Returns what may start now; empty if another thread is pumping, which then
  // sees this thread's change. Pump must follow.
  Work BeginPump() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does the work, and then all that may start after it.
  void Pump(Work work) ABSL_LOCKS_EXCLUDED(mutex_);
  // True if the launch, just taken, is all there is to do.
  bool IsAlone(const PlannedLaunch& launch) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Work TakeWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(Work work) ABSL_LOCKS_EXCLUDED(mutex_);
  void LaunchEnded(LaunchKind kind, std::optional<ScheduledRequest> unfinished)
      ABSL_LOCKS_EXCLUDED(mutex_);
  Work FreeLaunch(LaunchKind kind, std::optional<ScheduledRequest> unfinished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  DroppedRequests TakeQueue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return planner_.depth().requests == 0 &&
           planner_.launches_in_flight() == 0 && !pumping_;
  }
  void ShowDepth() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const QueueDepth& depth = planner_.depth();
    metrics_->SetQueueDepth(depth.requests, depth.rows, depth.bytes);
    metrics_->SetLaunchesInFlight(planner_.launches_in_flight());
  }

  BatchSink* const sink_;
  const Clock* const clock_;
  ServerMetrics* const metrics_;

  Mutex mutex_;
  CondVar wait_changed_;
  CondVar idle_changed_;  // for drains
  LaunchPlanner planner_ ABSL_GUARDED_BY(mutex_);
  bool pumping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time next_sweep_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time hold_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // When a launch may start that waits now, and until when EndWaits sleeps.
  absl::Time next_look_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Time sleeps_until_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  // Set when a drain ends: nothing may wait any more.
  bool drained_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

Refusal BatchScheduler::State::CheckRoom(const QueueDemand& demand,
                                         DroppedRequests* dropped) {
  if (draining_) return Draining();
  Refusal refusal = planner_.CheckRoom(demand);
  if (!absl::IsResourceExhausted(refusal.status)) return refusal;
  const absl::Time now = clock_->Now();
  if (now < next_sweep_) return refusal;
  next_sweep_ = now + kSweepInterval;
  planner_.Sweep(now, dropped);
  ShowDepth();
  return planner_.CheckRoom(demand);
}

absl::Status BatchScheduler::State::CheckRoom(const QueueDemand& demand) {
  DroppedRequests dropped;
  Refusal refusal;
  {
    MutexLock lock(&mutex_);
    refusal = CheckRoom(demand, &dropped);
  }
  CompleteAll(std::move(dropped), metrics_);
  if (!refusal.status.ok()) {
    metrics_->RequestDropped(refusal.reason, DropStage::kAdmission);
  }
  return refusal.status;
}

bool BatchScheduler::State::Admit(std::unique_ptr<AdmittedRequest>* request,
                                  DroppedRequests* dropped,
                                  std::vector<Refused>* refused) {
  CHECK(*request != nullptr && (*request)->done != nullptr);
  Refusal refusal = CheckRoom(DemandOf(**request), dropped);
  if (!refusal.status.ok()) {
    refused->push_back({std::move(*request), std::move(refusal)});
    return false;
  }
  planner_.Add(std::move(*request));
  return true;
}

void BatchScheduler::State::CompleteRefused(absl::Span<Refused> refused) {
  for (auto& [request, refusal] : refused) {
    metrics_->RequestDropped(refusal.reason, DropStage::kAdmission);
    Complete({std::move(request), {}}, refusal.status);
  }
}

void BatchScheduler::State::EnqueueAll(
    absl::Span<std::unique_ptr<AdmittedRequest>> requests) {
  DroppedRequests dropped;
  std::vector<Refused> refused;
  Work work;
  bool is_alone = false;
  {
    MutexLock lock(&mutex_);
    int64_t admitted = 0;
    int64_t admitted_rows = 0;
    for (std::unique_ptr<AdmittedRequest>& request : requests) {
      const int64_t rows = request->m;
      if (!Admit(&request, &dropped, &refused)) continue;
      ++admitted;
      admitted_rows += rows;
    }
    if (admitted > 0) {
      metrics_->RequestsAccepted(admitted, admitted_rows);
      work = BeginPump();
      is_alone = IsAlone(work.launch) &&
                 work.launch.batch.requests.size() <= requests.size();
      // Other threads start later launches while this one waits for its own.
      if (is_alone) pumping_ = false;
      ShowDepth();
    }
  }
  CompleteAll(std::move(dropped), metrics_);
  CompleteRefused(absl::MakeSpan(refused));
  if (is_alone) {
    work.launch.batch.hint = HintOf(work.launch.batch);
    Do(std::move(work));
  } else {
    Pump(std::move(work));
  }
}

BatchScheduler::State::Work BatchScheduler::State::BeginPump() {
  if (pumping_) return {};
  Work work = TakeWork();
  pumping_ = !work.empty();
  return work;
}

void BatchScheduler::State::Pump(Work work) {
  while (!work.empty()) {
    Do(std::move(work));
    MutexLock lock(&mutex_);
    work = TakeWork();
    ShowDepth();
    if (!work.empty()) continue;
    pumping_ = false;
    if (Idle()) idle_changed_.SignalAll();
  }
}

bool BatchScheduler::State::IsAlone(const PlannedLaunch& launch) const {
  return !launch.batch.requests.empty() && launch.kind == LaunchKind::kMerged &&
         planner_.launches_in_flight() == 1 && planner_.depth().requests == 0;
}

BatchScheduler::State::Work BatchScheduler::State::TakeWork() {
  Work work;
  next_look_ = absl::InfiniteFuture();
  if (planner_.depth().requests == 0) return work;
  const absl::Time now = clock_->Now();
  next_look_ = hold_until_;
  if (now >= hold_until_) {
    work.launch = planner_.Next(now, &work.dropped);
    next_look_ = planner_.next_look();
  }
  if (next_look_ < sleeps_until_) wait_changed_.Signal();
  return work;
}

void BatchScheduler::State::Do(Work work) {
  CompleteAll(std::move(work.dropped), metrics_);
  if (work.launch.batch.requests.empty()) return;
  // One lambda for each kind: a captured kind would be one word too many to be
  // held without an allocation.
  if (work.launch.kind == LaunchKind::kMerged) {
    sink_->Submit(std::move(work.launch.batch), [self = shared_from_this()](
                                                    auto unfinished) {
      self->LaunchEnded(LaunchKind::kMerged, std::move(unfinished));
    });
  } else {
    sink_->Submit(std::move(work.launch.batch), [self = shared_from_this()](
                                                    auto unfinished) {
      self->LaunchEnded(LaunchKind::kChunk, std::move(unfinished));
    });
  }
}

void BatchScheduler::State::LaunchEnded(
    LaunchKind kind, std::optional<ScheduledRequest> unfinished) {
  DroppedRequests late;
  Work work;
  {
    MutexLock lock(&mutex_);
    if (drained_ && unfinished.has_value()) {
      late.push_back(DrainEnded(*std::move(unfinished)));
    } else {
      work = FreeLaunch(kind, std::move(unfinished));
    }
  }
  if (!late.empty()) {
    // Completes them before the launch counts as ended: a drain waits for that.
    CompleteAll(std::move(late), metrics_);
    MutexLock lock(&mutex_);
    work = FreeLaunch(kind, std::nullopt);
  }
  Pump(std::move(work));
}

BatchScheduler::State::Work BatchScheduler::State::FreeLaunch(
    LaunchKind kind, std::optional<ScheduledRequest> unfinished) {
  planner_.LaunchEnded(kind, clock_->Now(), std::move(unfinished));
  Work work = BeginPump();
  ShowDepth();
  if (Idle()) idle_changed_.SignalAll();
  return work;
}

void BatchScheduler::State::HoldLaunches(absl::Time until) {
  MutexLock lock(&mutex_);
  if (draining_) return;
  hold_until_ = std::max(hold_until_, until);
}

void BatchScheduler::State::EndWaits() {
  while (true) {
    Work work;
    {
      MutexLock lock(&mutex_);
      if (stopping_) return;
      sleeps_until_ = next_look_;
      if (next_look_ == absl::InfiniteFuture()) {
        wait_changed_.Wait(&mutex_);
        continue;
      }
      const absl::Duration left = next_look_ - clock_->Now();
      if (left > absl::ZeroDuration()) {
        wait_changed_.WaitFor(&mutex_, std::min(left, kWaitPollInterval));
        continue;
      }
      next_look_ = absl::InfiniteFuture();
      work = BeginPump();
      ShowDepth();
    }
    Pump(std::move(work));
  }
}

void BatchScheduler::State::Drain(absl::Time deadline) {
  Work held;
  {
    MutexLock lock(&mutex_);
    draining_ = true;
    hold_until_ = absl::InfinitePast();
    planner_.StopGathering();
    held = BeginPump();
    ShowDepth();
  }
  Pump(std::move(held));
  DroppedRequests late;
  {
    MutexLock lock(&mutex_);
    while (!Idle() && clock_->Now() < deadline) {
      idle_changed_.WaitFor(&mutex_, kDrainPollInterval);
    }
    drained_ = true;
    late = TakeQueue();
  }
  CompleteAll(std::move(late), metrics_);
}

DroppedRequests BatchScheduler::State::TakeQueue() {
  DroppedRequests taken;
  for (ScheduledRequest& scheduled : planner_.TakeAll()) {
    taken.push_back(DrainEnded(std::move(scheduled)));
  }
  ShowDepth();
  return taken;
}

void BatchScheduler::State::Stop() {
  MutexLock lock(&mutex_);
  stopping_ = true;
  wait_changed_.Signal();
}

BatchScheduler::BatchScheduler(const SchedulerOptions& options, BatchSink* sink,
                               const Clock* clock, ServerMetrics* metrics)
    : state_(std::make_shared<State>(options, sink, clock, metrics)),
      wait_ender_([state = state_.get()] { state->EndWaits(); }) {}

BatchScheduler::~BatchScheduler() {
  Drain(absl::InfiniteFuture());
  state_->Stop();
  wait_ender_.join();
}

absl::Status BatchScheduler::CheckRoom(const QueueDemand& demand) {
  return state_->CheckRoom(demand);
}

void BatchScheduler::Enqueue(std::unique_ptr<AdmittedRequest> request) {
  state_->EnqueueAll(absl::MakeSpan(&request, 1));
}

void BatchScheduler::EnqueueAll(
    absl::Span<std::unique_ptr<AdmittedRequest>> requests) {
  state_->EnqueueAll(requests);
}

void BatchScheduler::HoldLaunches(absl::Time until) {
  state_->HoldLaunches(until);
}

void BatchScheduler::Drain(absl::Time deadline) { state_->Drain(deadline); }

}  // namespace qgemm
