// SPDX-License-Identifier: Apache-2.0
//
// PendingCall is one unary call over its attempts; the engine keeps them all.

#include "client/call_engine.h"

#include <grpcpp/alarm.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "rpc/grpc_status.h"

namespace qgemm {
namespace {

constexpr char kClientDestroyed[] = "the client was destroyed";
constexpr char kCallerCancelled[] = "the caller cancelled the call";

}  // namespace

// One unary call over all its attempts. At any moment exactly one operation
// is on the completion queue: an attempt, or the pause before the next.
class CallEngine::PendingCall final
    : public CompletionTag,
      public std::enable_shared_from_this<PendingCall> {
 public:
  PendingCall(CallEngine* engine, UnaryCall call)
      : engine_(engine), call_(std::move(call)) {
    outcome_.attempts = std::max(1, call_.attempts);
  }
  PendingCall(CallEngine* engine, absl::Duration pause, absl::Status failure,
              absl::AnyInvocable<void(CallOutcome)> done)
      : engine_(engine), failure_(std::move(failure)) {
    call_.pause = pause;
    call_.done = std::move(done);
  }

  void Start() {
    // The event may come, and drop the engine's reference, before this
    // function has released the lock.
    const std::shared_ptr<PendingCall> self = shared_from_this();
    MutexLock lock(&mutex_);
    if (failure_.ok() && call_.attempts == 0) {
      StartAttempt();
    } else {
      StartPause(call_.pause);
    }
  }

  // Instead of Start.
  void EndUnstarted(const char* reason) {
    outcome_.status = absl::CancelledError(reason);
    call_.done(std::move(outcome_));
  }

  // `reason` is a literal; the first one counts.
  void Cancel(const char* reason) {
    MutexLock lock(&mutex_);
    if (cancelled_ == nullptr) cancelled_ = reason;
    if (alarm_ != nullptr) alarm_->Cancel();
    if (context_ != nullptr) context_->TryCancel();
  }

  void Complete(bool) override {
    const std::shared_ptr<PendingCall> self = shared_from_this();
    if (!Advance()) return;
    call_.done(std::move(outcome_));
    call_.done = nullptr;  // what it captured goes before the engine may
    engine_->Remove(self);
  }

 private:
  // Goes on after an event; true if the call has ended.
  bool Advance() {
    MutexLock lock(&mutex_);
    if (alarm_ != nullptr) {
      alarm_.reset();
      if (cancelled_ != nullptr) {
        outcome_.status = absl::CancelledError(cancelled_);
        return true;
      }
      if (!failure_.ok()) {
        outcome_.status = failure_;
        return true;
      }
      ++outcome_.attempts;
      StartAttempt();
      return false;
    }
    TakeEnd();
    const std::optional<absl::Duration> pause = PauseBeforeNext();
    if (!pause.has_value()) return true;
    StartPause(*pause);
    return false;
  }

  // nullopt: the attempt that ended was the last.
  std::optional<absl::Duration> PauseBeforeNext()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (cancelled_ != nullptr || outcome_.status.ok()) return std::nullopt;
    ServerSet& tried = call_.where.tried;
    tried |= ServerSet{1} << place_.server;
    EndedAttempt attempt;
    attempt.status = outcome_.status;
    attempt.retry_delay = RetryDelayOf(status_);
    attempt.number = outcome_.attempts;
    attempt.deadline = call_.deadline;
    attempt.has_other_server =
        !call_.where.server.has_value() && engine_->pool().HasUntried(tried);
    // All were tried: another round of them begins.
    if (!attempt.has_other_server) tried = 0;
    return engine_->PauseAfter(std::move(attempt));
  }

  // The outcome of the attempt that ended.
  void TakeEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const bool cancelled = cancelled_ != nullptr;
    outcome_.status = ToAbslStatus(status_);
    if (outcome_.status.ok() && !outcome_.response.Valid()) {
      outcome_.status = LostAnswer(cancelled, absl::Now() >= call_.deadline);
    }
    if (cancelled && !outcome_.status.ok()) {
      outcome_.status = absl::CancelledError(cancelled_);
    }
    outcome_.server = place_.server;
    engine_->pool().Leave(place_, outcome_.status);
    place_.channel.reset();
    reader_.reset();
    context_.reset();
  }

  void StartPause(absl::Duration pause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    alarm_ = std::make_unique<grpc::Alarm>();
    alarm_->Set(engine_->queue(), absl::ToChronoTime(absl::Now() + pause),
                Publish());
    if (cancelled_ != nullptr) alarm_->Cancel();
  }

  void StartAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    context_ = std::make_unique<grpc::ClientContext>();
    SetContextDeadline(call_.deadline, context_.get());
    engine_->Authorize(context_.get());
    outcome_.response.Clear();
    place_ = engine_->pool().Enter(call_.where);
    grpc::GenericStub stub(place_.channel);
    reader_ = stub.PrepareUnaryCall(context_.get(), call_.method, call_.request,
                                    engine_->queue());
    reader_->StartCall();
    reader_->Finish(&outcome_.response, &status_, Publish());
    if (cancelled_ != nullptr) context_->TryCancel();
  }

  CallEngine* const engine_;
  const absl::Status failure_;  // not OK: there is nothing to attempt
  UnaryCall call_;

  Mutex mutex_;
  const char* cancelled_ ABSL_GUARDED_BY(mutex_) = nullptr;  // why, once it is
  std::unique_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader_
      ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
  ChannelPool::Place place_ ABSL_GUARDED_BY(mutex_);  // of the attempt
  grpc::Status status_;
  CallOutcome outcome_;
};

CallEngine::CallEngine(Channels channels, std::shared_ptr<TokenSource> token,
                       const RetryPolicy& retry, int completion_threads)
    : token_(std::move(token)),
      retry_(retry),
      pool_(std::move(channels)),
      random_(std::random_device()()) {
  completions_.Start(completion_threads);
}

CallEngine::~CallEngine() = default;

std::weak_ptr<CallEngine::PendingCall> CallEngine::Start(UnaryCall call) {
  const auto pending = std::make_shared<PendingCall>(this, std::move(call));
  Begin(pending);
  return pending;
}

void CallEngine::Fail(absl::Status status,
                      absl::AnyInvocable<void(CallOutcome)> done) {
  FailAfter(absl::ZeroDuration(), std::move(status), std::move(done));
}

std::weak_ptr<CallEngine::PendingCall> CallEngine::FailAfter(
    absl::Duration pause, absl::Status status,
    absl::AnyInvocable<void(CallOutcome)> done) {
  const auto pending = std::make_shared<PendingCall>(
      this, pause, std::move(status), std::move(done));
  Begin(pending);
  return pending;
}

void CallEngine::Cancel(const std::weak_ptr<PendingCall>& call) {
  const std::shared_ptr<PendingCall> pending = call.lock();
  if (pending != nullptr) pending->Cancel(kCallerCancelled);
}

void CallEngine::Begin(const std::shared_ptr<PendingCall>& pending) {
  bool closed;
  {
    MutexLock lock(&mutex_);
    closed = closed_;
    if (!closed) pending_.insert(pending);
  }
  if (closed) return pending->EndUnstarted(kClientDestroyed);
  pending->Start();
}

bool CallEngine::IsShutDown() {
  MutexLock lock(&mutex_);
  return closed_;
}

void CallEngine::Authorize(grpc::ClientContext* context) {
  if (token_ != nullptr) token_->Authorize(context);
}

bool CallEngine::Enter(grpc::ClientContext* context) {
  MutexLock lock(&mutex_);
  if (closed_) return false;
  contexts_.insert(context);
  return true;
}

void CallEngine::Leave(grpc::ClientContext* context) {
  MutexLock lock(&mutex_);
  contexts_.erase(context);
  changed_.SignalAll();
}

std::optional<absl::Duration> CallEngine::PauseAfter(EndedAttempt attempt) {
  attempt.now = absl::Now();
  attempt.random = Random();
  return RetryPause(retry_, attempt);
}

bool CallEngine::Sleep(absl::Duration pause) {
  const absl::Time end = absl::Now() + pause;
  MutexLock lock(&mutex_);
  ++sleepers_;
  for (absl::Duration left = pause; !closed_ && left > absl::ZeroDuration();
       left = end - absl::Now()) {
    changed_.WaitFor(&mutex_, left);
  }
  --sleepers_;
  changed_.SignalAll();
  return !closed_;
}

void CallEngine::Shutdown() {
  std::vector<std::shared_ptr<PendingCall>> calls;
  {
    MutexLock lock(&mutex_);
    closed_ = true;
    changed_.SignalAll();
    calls.assign(pending_.begin(), pending_.end());
    for (grpc::ClientContext* context : contexts_) context->TryCancel();
  }
  // Outside the lock, which a call takes while it holds its own.
  for (const auto& call : calls) call->Cancel(kClientDestroyed);
  calls.clear();
  {
    MutexLock lock(&mutex_);
    while (!pending_.empty() || !contexts_.empty() || sleepers_ > 0) {
      changed_.Wait(&mutex_);
    }
  }
  completions_.ShutDown();
}

double CallEngine::Random() {
  MutexLock lock(&mutex_);
  return std::uniform_real_distribution<double>(0.0, 1.0)(random_);
}

void CallEngine::Remove(const std::shared_ptr<PendingCall>& call) {
  MutexLock lock(&mutex_);
  pending_.erase(call);
  changed_.SignalAll();
}

}  // namespace qgemm
