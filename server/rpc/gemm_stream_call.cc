// SPDX-License-Identifier: Apache-2.0
//
// One message is taken at a time, on the thread that read it; its operand is
// copied outside the lock. live_ is the way from an id to a request that has
// no answer yet: what finds nothing there has been refused meanwhile.

#include "server/rpc/gemm_stream_call.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "server/rpc/call_deadline.h"
#include "server/rpc/gemm_intake.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/operands.h"
#include "server/rpc/stream_message.h"

namespace qgemm {
namespace {

// Of a stream's requests, in metrics.
constexpr char kMethod[] = "GemmStream";

}  // namespace

GemmStreamCall::GemmStreamCall(StreamAdmission* admission,
                               const RpcEnvironment* environment,
                               PartialOperands* partial_operands,
                               CompletionQueue* queue)
    : admission_(admission),
      environment_(environment),
      partial_operands_(partial_operands),
      queue_(queue),
      token_(environment->live_calls),
      stream_(&context_),
      ledger_(environment->options.stream) {}

void GemmStreamCall::Accept() {
  context_.AsyncNotifyWhenDone(done_tag_.Arm(shared_from_this()));
  environment_->service->RequestGemmStream(
      &context_, &stream_, queue_->queue(), queue_->queue(),
      accepted_tag_.Arm(shared_from_this()));
}

void GemmStreamCall::OnAccepted(bool ok) {
  if (!ok) {  // the server shut down; gRPC will not return the done tag
    done_tag_.Disarm();
    return;
  }
  admission_->Accept(queue_);
  const absl::Status admitted = admission_->Admit(shared_from_this());
  if (!admitted.ok()) {
    environment_->live_calls->Refuse([self = shared_from_this(), admitted] {
      MutexLock lock(&self->mutex_);
      self->Break(ToGrpcStatus(admitted));
    });
    return;
  }
  MutexLock lock(&mutex_);
  Advance();
}

void GemmStreamCall::OnRead(bool ok) {
  arrival_ = environment_->clock->Now();
  const absl::Status taken = ok ? Take() : absl::OkStatus();
  received_.Clear();
  MutexLock lock(&mutex_);
  reading_ = false;
  if (!ok) {
    half_closed_ = true;
    RefuseArriving(absl::InvalidArgumentError(
        "the client ended the stream before the last fragment of a"));
  }
  if (!taken.ok()) {
    Break(ToGrpcStatus(taken));
  } else {
    Advance();
  }
}

absl::Status GemmStreamCall::Take() {
  v1::GemmStreamRequest message;
  ReceivedPayload a;
  RETURN_IF_ERROR(ReadPayloadMessage(&received_, &message, &a));
  if (message.cancel()) return TakeCancel(message, a);
  return message.has_gemm() ? TakeFirst(message, a) : TakeFragment(message, a);
}

absl::Status GemmStreamCall::TakeFirst(const v1::GemmStreamRequest& message,
                                       const ReceivedPayload& a) {
  const uint64_t id = message.request_id();
  {
    MutexLock lock(&mutex_);
    const StreamVerdict verdict =
        ledger_.Begin(id, OperandBytes(message, a), a.bytes);
    if (verdict.kind == StreamVerdict::Kind::kBroken) return verdict.status;
    if (verdict.kind == StreamVerdict::Kind::kRefused) {
      environment_->metrics->RpcEnded(kMethod, verdict.status.code(),
                                      absl::ZeroDuration());
      ready_.push_back({StreamAnswer(id, verdict.status, absl::ZeroDuration()),
                        /*ends_request=*/false});
      return absl::OkStatus();
    }
    live_[id].arrival = arrival_;
  }
  absl::StatusOr<Arriving> arriving = Check(message, a);
  if (!arriving.ok()) {
    Fail(id, arriving.status(), absl::ZeroDuration());
    return absl::OkStatus();
  }
  const absl::Status staged = Stage(a, &*arriving);
  if (!staged.ok()) {
    Fail(id, staged, RetryDelayFor(staged));
    return absl::OkStatus();
  }
  Address(message, &*arriving);
  Keep(id, *std::move(arriving));
  return absl::OkStatus();
}

absl::StatusOr<GemmStreamCall::Arriving> GemmStreamCall::Check(
    const v1::GemmStreamRequest& message, const ReceivedPayload& a) const {
  const RpcOptions& options = environment_->options;
  RETURN_IF_ERROR(environment_->live_calls->CheckServing());
  RETURN_IF_ERROR(CheckFields(message, a, options.stream.max_operand_bytes));
  ASSIGN_OR_RETURN(GemmIntake intake,
                   TakeGemm(*environment_, message.gemm(),
                            static_cast<int64_t>(OperandBytes(message, a)),
                            StreamResultLimit(options.stream.max_operand_bytes),
                            context_.peer()));
  RETURN_IF_ERROR(CheckQueueTakes(intake.plan, options.max_queued_bytes));
  RETURN_IF_ERROR(CheckRoom(*environment_, intake));
  Arriving arriving;
  arriving.request = std::move(intake.request);
  arriving.plan = intake.plan;
  return arriving;
}

absl::Status GemmStreamCall::Stage(const ReceivedPayload& a,
                                   Arriving* arriving) {
  const int64_t a_bytes = arriving->plan.a_bytes;
  if (a.bytes < a_bytes) {
    ASSIGN_OR_RETURN(arriving->share, partial_operands_->Take(a_bytes));
  }
  ASSIGN_OR_RETURN(arriving->request->a,
                   environment_->backend->AcquireStaging(a_bytes));
  CopyPayload(a, arriving->request->a.data());
  return absl::OkStatus();
}

void GemmStreamCall::Address(const v1::GemmStreamRequest& message,
                             Arriving* arriving) {
  GemmRequest& request = *arriving->request;
  request.arrival = arrival_;
  request.deadline = std::min(DeadlineOf(context_),
                              DeadlineAfter(arrival_, message.timeout_ms()));
  // One stream's answers would keep its queue's thread from reading.
  request.completion_executor = environment_->answerers;
  const int64_t fragment_bytes =
      FragmentBytes(message, environment_->options.max_message_bytes);
  request.done = [self = shared_from_this(), id = message.request_id(),
                  fragment_bytes, c_bytes = arriving->plan.c_bytes](
                     const absl::Status& status, const GemmTimings& timings,
                     std::unique_ptr<GemmRequest> ended) {
    StreamResult result;
    result.timings = timings;
    result.total = self->environment_->clock->Now() - ended->arrival;
    result.c = absl::MakeConstSpan(ended->c.data(), c_bytes);
    result.c_owner = HoldWhileSent(*self->environment_, std::move(ended->c));
    result.fragment_bytes = fragment_bytes;
    ended.reset();  // the weights, before their user hears of the end
    self->OnComputed(id, status, std::move(result));
  };
}

absl::Status GemmStreamCall::TakeFragment(const v1::GemmStreamRequest& message,
                                          const ReceivedPayload& a) {
  const uint64_t id = message.request_id();
  Arriving arriving;
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(ledger_.Continue(id, message.offset(), a.bytes));
    const auto found = live_.find(id);
    if (found == live_.end()) return absl::OkStatus();  // it was refused
    arriving = std::move(found->second.arriving);
  }
  CopyPayload(a, arriving.request->a.data() + message.offset());
  Keep(id, std::move(arriving));
  return absl::OkStatus();
}

absl::Status GemmStreamCall::TakeCancel(const v1::GemmStreamRequest& message,
                                        const ReceivedPayload& a) {
  const uint64_t id = message.request_id();
  if (message.has_gemm() || a.bytes > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "request_id = ", id, ": cancel beside gemm or a; it comes alone"));
  }
  MutexLock lock(&mutex_);
  const auto found = live_.find(id);
  if (found != live_.end() && ledger_.IsComplete(id)) {
    *found->second.cancelled = true;
  } else if (found != live_.end()) {
    QueueError(id, absl::CancelledError("the client cancelled the request"),
               absl::ZeroDuration());
  }
  ledger_.EndFragments(id);
  return absl::OkStatus();
}

void GemmStreamCall::Keep(uint64_t id, Arriving arriving) {
  {
    MutexLock lock(&mutex_);
    const auto found = live_.find(id);
    if (found == live_.end()) return;  // refused meanwhile
    if (!ledger_.IsComplete(id)) {
      found->second.arriving = std::move(arriving);
      return;
    }
    arriving.request->cancelled = found->second.cancelled;
  }
  Launch(id, std::move(arriving));
}

void GemmStreamCall::Launch(uint64_t id, Arriving arriving) {
  const GemmPlan& plan = arriving.plan;
  absl::StatusOr<StagingLease> c =
      environment_->backend->AcquireStaging(plan.c_bytes);
  if (!c.ok()) return Fail(id, c.status(), RetryDelayFor(c.status()));
  arriving.request->c = *std::move(c);
  arriving.share = PartialOperands::Share();
  {
    MutexLock lock(&mutex_);
    ledger_.Hold(id, plan.a_bytes + plan.c_bytes);
  }
  environment_->scheduler->Enqueue(std::move(arriving.request));
}

void GemmStreamCall::OnComputed(uint64_t id, const absl::Status& status,
                                StreamResult result) {
  if (!status.ok()) {
    result.c_owner.reset();
    return Fail(id, status, RetryDelayFor(status));
  }
  MutexLock lock(&mutex_);
  const auto found = live_.find(id);
  if (found == live_.end()) return;  // the call has ended
  live_.erase(found);
  environment_->metrics->RpcEnded(kMethod, absl::StatusCode::kOk, result.total);
  ready_.push_back({StreamAnswer(id, std::move(result))});
  Advance();
}

void GemmStreamCall::Fail(uint64_t id, const absl::Status& status,
                          absl::Duration retry_delay) {
  MutexLock lock(&mutex_);
  if (live_.count(id) == 0) return;  // refused meanwhile
  QueueError(id, status, retry_delay);
  Advance();
}

void GemmStreamCall::QueueError(uint64_t id, const absl::Status& status,
                                absl::Duration retry_delay) {
  const auto found = live_.find(id);
  environment_->metrics->RpcEnded(
      kMethod, status.code(),
      environment_->clock->Now() - found->second.arrival);
  live_.erase(found);
  ready_.push_back({StreamAnswer(id, status, retry_delay)});
}

void GemmStreamCall::RefuseArriving(const absl::Status& status) {
  std::vector<uint64_t> refused;
  for (const auto& [id, unused] : live_) {
    if (!ledger_.IsComplete(id)) refused.push_back(id);
  }
  for (const uint64_t id : refused) {
    QueueError(id, status, absl::ZeroDuration());
  }
}

void GemmStreamCall::BeginDrain() {
  MutexLock lock(&mutex_);
  draining_ = true;
  RefuseArriving(environment_->live_calls->CheckServing());
  Advance();
}

void GemmStreamCall::Break(const grpc::Status& status) {
  if (!broken_.has_value()) broken_ = status;
  for (auto& [unused, live] : live_) *live.cancelled = true;
  live_.clear();
  ready_.clear();
  Advance();
}

void GemmStreamCall::Advance() {
  if (finished_) return;
  if (!writing_) {
    if (broken_.has_value()) return Finish(*broken_);
    if (!ready_.empty()) {
      StartWrite();
    } else if (ledger_.unanswered() == 0 && half_closed_) {
      return Finish(grpc::Status::OK);
    } else if (ledger_.unanswered() == 0 && draining_) {
      return Finish(ToGrpcStatus(environment_->live_calls->CheckServing()));
    }
  }
  if (!reading_ && !half_closed_ && !broken_.has_value() && HasRoom()) {
    StartRead();
  }
}

// Refusals of messages that are no request count too.
bool GemmStreamCall::HasRoom() const {
  return ledger_.HasRoom() && static_cast<int64_t>(ready_.size()) <
                                  environment_->options.stream.max_requests;
}

void GemmStreamCall::StartRead() {
  reading_ = true;
  stream_.Read(&received_, read_tag_.Arm(shared_from_this()));
}

// Answers take turns, so that a small one does not wait for a large one.
void GemmStreamCall::StartWrite() {
  QueuedAnswer next = std::move(ready_.front());
  ready_.pop_front();
  const grpc::ByteBuffer message = next.answer.NextMessage();
  if (!next.answer.done()) {
    ready_.push_back(std::move(next));
  } else if (next.ends_request) {
    ledger_.Answer(next.answer.id());
  }
  writing_ = true;
  stream_.Write(message, written_tag_.Arm(shared_from_this()));
}

void GemmStreamCall::OnWritten(bool ok) {
  MutexLock lock(&mutex_);
  writing_ = false;
  ledger_.Sent();
  if (ok) {
    Advance();
  } else {
    Break(grpc::Status::CANCELLED);
  }
}

void GemmStreamCall::Finish(const grpc::Status& status) {
  finished_ = true;
  admission_->Leave(this);
  stream_.Finish(status, finished_tag_.Arm(shared_from_this()));
}

void GemmStreamCall::OnDone(bool) {
  MutexLock lock(&mutex_);
  Break(grpc::Status::CANCELLED);
}

}  // namespace qgemm
