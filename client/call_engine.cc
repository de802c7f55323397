// SPDX-License-Identifier: Apache-2.0

#include "client/call_engine.h"

#include <grpcpp/alarm.h>
#include <grpcpp/generic/generic_stub.h>

#include <utility>

#include "absl/time/clock.h"
#include "client/grpc_status.h"
#include "client/retry.h"

namespace qgemm {
namespace {

constexpr char kClientDestroyed[] = "the client was destroyed";

}  // namespace

// One unary call over all its attempts. At any moment exactly one operation
// is on the completion queue: an attempt, or the pause before the next.
class CallEngine::PendingCall final
    : public LoopTag,
      public std::enable_shared_from_this<PendingCall> {
 public:
  PendingCall(CallEngine* engine, UnaryCall call)
      : engine_(engine), call_(std::move(call)) {}
  PendingCall(CallEngine* engine, absl::Status failure,
              std::function<void(CallOutcome)> done)
      : engine_(engine), failure_(std::move(failure)) {
    call_.done = std::move(done);
  }

  void Start() {
    // The event may come, and drop the engine's reference, before this
    // function has released the lock.
    const std::shared_ptr<PendingCall> self = shared_from_this();
    MutexLock lock(&mutex_);
    if (failure_.ok()) {
      StartAttempt();
    } else {
      StartPause(absl::ZeroDuration());
    }
  }

  void Cancel() {
    MutexLock lock(&mutex_);
    cancelled_ = true;
    if (alarm_ != nullptr) alarm_->Cancel();
    if (context_ != nullptr) context_->TryCancel();
  }

  void OnEvent(bool) override {
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
      if (!failure_.ok()) {
        outcome_.status = failure_;
        return true;
      }
      if (cancelled_) {
        outcome_.status = absl::CancelledError(kClientDestroyed);
        return true;
      }
      ++outcome_.attempts;
      StartAttempt();
      return false;
    }
    outcome_.status = ToAbslStatus(status_);
    if (outcome_.status.ok() && !outcome_.response.Valid()) {
      outcome_.status = LostAnswer(cancelled_, absl::Now() >= call_.deadline);
    }
    if (cancelled_ && !outcome_.status.ok()) {
      outcome_.status = absl::CancelledError(kClientDestroyed);
    }
    reader_.reset();
    context_.reset();
    const std::optional<absl::Duration> pause =
        cancelled_ ? std::nullopt
                   : engine_->PauseAfter(outcome_.status, outcome_.attempts,
                                         call_.deadline);
    if (!pause.has_value()) return true;
    StartPause(*pause);
    return false;
  }

  void StartPause(absl::Duration pause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    alarm_ = std::make_unique<grpc::Alarm>();
    alarm_->Set(engine_->loop_.queue(), absl::ToChronoTime(absl::Now() + pause),
                CompletionLoop::ToGrpc(this));
  }

  void StartAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    context_ = std::make_unique<grpc::ClientContext>();
    SetContextDeadline(call_.deadline, context_.get());
    outcome_.response.Clear();
    grpc::GenericStub stub(engine_->NextChannel());
    reader_ = stub.PrepareUnaryCall(context_.get(), call_.method, call_.request,
                                    engine_->loop_.queue());
    reader_->StartCall();
    reader_->Finish(&outcome_.response, &status_, CompletionLoop::ToGrpc(this));
    if (cancelled_) context_->TryCancel();
  }

  CallEngine* const engine_;
  const absl::Status failure_;  // not OK: there is nothing to attempt
  UnaryCall call_;

  Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader_
      ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
  grpc::Status status_;
  CallOutcome outcome_;
};

CallEngine::CallEngine(std::vector<std::shared_ptr<grpc::Channel>> channels,
                       const RetryPolicy& retry, int completion_threads)
    : channels_(std::move(channels)),
      retry_(retry),
      random_(std::random_device()()),
      loop_(completion_threads) {}

CallEngine::~CallEngine() = default;

void CallEngine::Start(UnaryCall call) {
  Begin(std::make_shared<PendingCall>(this, std::move(call)));
}

void CallEngine::Fail(absl::Status status,
                      std::function<void(CallOutcome)> done) {
  Begin(
      std::make_shared<PendingCall>(this, std::move(status), std::move(done)));
}

void CallEngine::Begin(const std::shared_ptr<PendingCall>& pending) {
  bool closed;
  {
    MutexLock lock(&mutex_);
    closed = closed_;
    pending_.insert(pending);
  }
  if (closed) pending->Cancel();
  pending->Start();
}

bool CallEngine::IsShutDown() {
  MutexLock lock(&mutex_);
  return closed_;
}

std::shared_ptr<grpc::Channel> CallEngine::NextChannel() {
  MutexLock lock(&mutex_);
  return channels_[next_channel_++ % channels_.size()];
}

std::shared_ptr<grpc::Channel> CallEngine::NextStreamChannel() {
  MutexLock lock(&mutex_);
  return channels_[next_stream_channel_++ % channels_.size()];
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

std::optional<absl::Duration> CallEngine::PauseAfter(const absl::Status& status,
                                                     int attempt,
                                                     absl::Time deadline) {
  return RetryPause(retry_, {status, attempt, absl::Now(), deadline, Random()});
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
  for (const auto& call : calls) call->Cancel();
  calls.clear();
  {
    MutexLock lock(&mutex_);
    while (!pending_.empty() || !contexts_.empty() || sleepers_ > 0) {
      changed_.Wait(&mutex_);
    }
  }
  loop_.Join();
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
