// SPDX-License-Identifier: Apache-2.0
//
// One message is handled at a time: on the thread that read it, but for its
// copy, which gemm_stream_copy.cc has. live_ maps an id to a request that has
// no answer yet: a request that is not there has been refused meanwhile.

#include "server/rpc/gemm_stream_call.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "rpc/grpc_status.h"
#include "server/rpc/handlers.h"
#include "server/rpc/operands.h"
#include "server/rpc/request_log.h"
#include "server/rpc/translate.h"
#include "server/weights/owners.h"

namespace qgemm {
namespace {

// The status with the time to retry, if it says that there is no room now.
absl::Status Retryable(absl::Status status) {
  const absl::Duration delay = RetryDelayFor(status);
  if (delay == absl::ZeroDuration()) return status;
  return WithRetryDelay(std::move(status), delay);
}

}  // namespace

GemmStreamCall::GemmStreamCall(GemmStreamHandler* handler,
                               CompletionQueue* queue)
    : ServerCall(handler->services_,
                 {kMethod, RpcAccess::Needs(Right::kCompute)}, queue),
      handler_(handler),
      stream_(context()),
      ledger_(handler->options_.stream) {}

void GemmStreamCall::Await(void* tag) {
  handler_->service_->RequestGemmStream(context(), &stream_,
                                        queue()->server_queue(),
                                        queue()->server_queue(), tag);
}

void GemmStreamCall::AcceptNext() { handler_->Accept(queue()); }

void GemmStreamCall::Begin() {
  client_ = peer();
  const absl::Status entered = handler_->calls_.Enter(
      shared_from_this(), peer()->identity, QuotaOf(*peer(), &Quota::streams));
  if (absl::IsUnavailable(entered)) return Refuse(entered);
  if (!entered.ok()) return End(entered);
  handler_->services_.metrics->StreamsChanged(1);
  MutexLock lock(&mutex_);
  Advance();
}

void GemmStreamCall::End(const absl::Status& status) {
  MutexLock lock(&mutex_);
  Break(ToGrpcStatus(status));
}

void GemmStreamCall::OnRead(bool ok) {
  arrival_ = handler_->services_.clock->Now();
  CountBytes(Direction::kReceived, received_);
  if (!ok) return OnHalfClose();
  absl::StatusOr<std::optional<Copy>> copy = HandleMessage();
  if (copy.ok() && copy->has_value()) return StartCopy(**std::move(copy));
  EndMessage(copy.status());
}

void GemmStreamCall::OnHalfClose() {
  MutexLock lock(&mutex_);
  reading_ = false;
  half_closed_ = true;
  RefuseArriving(absl::InvalidArgumentError(
      "the client ended the stream before the last fragment of a"));
  Advance();
}

void GemmStreamCall::EndMessage(const absl::Status& handled) {
  a_ = ReceivedPayload();
  message_ = v1::GemmStreamRequest();
  received_.Clear();
  MutexLock lock(&mutex_);
  reading_ = false;
  copying_ = false;
  if (handled.ok()) return Advance();
  LogRefusal(kMethod, handled, [this] { return peer(); });
  Break(ToGrpcStatus(handled));
}

absl::StatusOr<std::optional<GemmStreamCall::Copy>>
GemmStreamCall::HandleMessage() {
  // A table that came into force meanwhile counts for what comes.
  ASSIGN_OR_RETURN(client_, CurrentPeer());
  RETURN_IF_ERROR(ReadPayloadMessage(&received_, &message_, &a_));
  switch (message_.part_case()) {
    case v1::GemmStreamRequest::kOpen:
      return OpenRequest();
    case v1::GemmStreamRequest::kFragment:
      return AddFragment();
    case v1::GemmStreamRequest::kCancel:
      RETURN_IF_ERROR(CancelRequest());
      return std::nullopt;
    case v1::GemmStreamRequest::PART_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "request_id = ", message_.request_id(),
      ": the message has none of open, fragment and cancel; set one of them"));
}

absl::StatusOr<std::optional<GemmStreamCall::Copy>>
GemmStreamCall::OpenRequest() {
  const uint64_t id = message_.request_id();
  ASSIGN_OR_RETURN(
      Cancelled cancelled,
      RegisterRequest(id, OperandBytes(message_.open(), a_.bytes), a_.bytes));
  if (cancelled == nullptr) return std::nullopt;
  absl::StatusOr<Arriving> arriving = ParseRequest(message_.open());
  if (!arriving.ok()) {
    Fail(id, arriving.status());
    return std::nullopt;
  }
  const absl::Status admitted = Admit(&*arriving);
  if (!admitted.ok()) {
    Fail(id, admitted, RetryDelayOf(admitted).value_or(absl::ZeroDuration()));
    return std::nullopt;
  }
  SetCaller(std::move(cancelled), &*arriving);
  Copy copy;
  copy.id = id;
  copy.is_first = true;
  copy.bytes = arriving->builder.sizes().a_bytes;
  copy.arriving = *std::move(arriving);
  return copy;
}

absl::StatusOr<GemmStreamCall::Cancelled> GemmStreamCall::RegisterRequest(
    uint64_t id, uint64_t a_bytes, uint64_t fragment_bytes) {
  MutexLock lock(&mutex_);
  const StreamVerdict verdict = ledger_.Begin(id, a_bytes, fragment_bytes);
  if (verdict.kind == StreamVerdict::Kind::kBroken) return verdict.status;
  if (verdict.kind == StreamVerdict::Kind::kRefused) {
    handler_->services_.metrics->RpcEnded(kMethod, verdict.status.code(),
                                          absl::ZeroDuration());
    ready_.push_back({StreamAnswer(id, verdict.status, absl::ZeroDuration()),
                      /*ends_request=*/false});
    return Cancelled();
  }
  Live& live = live_[id];
  live.arrival = arrival_;
  return live.cancelled;
}

absl::StatusOr<GemmStreamCall::Arriving> GemmStreamCall::ParseRequest(
    const v1::GemmStreamOpen& open) {
  const RpcOptions& options = handler_->options_;
  const int64_t max_operand_bytes = options.stream.max_operand_bytes;
  RETURN_IF_ERROR(live_calls()->CheckServing());
  RETURN_IF_ERROR(CheckStreamOpen(open, a_.bytes, max_operand_bytes));
  const auto a_bytes = static_cast<int64_t>(OperandBytes(open, a_.bytes));
  const ResultLimit result = StreamResultLimit(max_operand_bytes);
  const GemmServices& gemm = handler_->gemm_;
  Arriving arriving;
  ASSIGN_OR_RETURN(
      arriving.builder,
      open.has_run()
          ? ParseRun(gemm, open.run(), a_bytes, result, *client_, nullptr)
          : ParseGemm(gemm, open.gemm(), a_bytes, result, *client_, nullptr));
  RETURN_IF_ERROR(
      CheckQueueHolds(arriving.builder.sizes(), options.max_queued_bytes));
  return arriving;
}

absl::Status GemmStreamCall::Admit(Arriving* arriving) {
  RETURN_IF_ERROR(Retryable(arriving->builder.CheckRoom()));
  const GemmSizes& sizes = arriving->builder.sizes();
  ASSIGN_OR_RETURN(arriving->charge,
                   ClientCharge::Take(
                       client_, sizes.a_bytes + sizes.c_bytes,
                       StagingShare(handler_->gemm_.max_client_staging_bytes)));
  return absl::OkStatus();
}

void GemmStreamCall::SetCaller(Cancelled cancelled, Arriving* arriving) {
  GemmRequestBuilder& builder = arriving->builder;
  GemmCaller caller;
  caller.arrival = arrival_;
  caller.deadline =
      std::min(DeadlineOf(*context(), handler_->services_.clock->Now()),
               DeadlineAfter(arrival_, message_.open().timeout_ns()));
  caller.cancelled = std::move(cancelled);
  // One stream's answers would keep its queue's thread from reading.
  caller.completion_executor = handler_->gemm_.answer_executor;
  const int64_t fragment_bytes =
      AnswerFragmentBytes(message_.open().c_fragment_bytes(),
                          MaxResultBytes(handler_->options_.max_message_bytes));
  builder.SetCaller(
      std::move(caller),
      [self = shared_from_this(), id = message_.request_id(), fragment_bytes,
       c_bytes = builder.sizes().c_bytes, charge = std::move(arriving->charge)](
          const absl::Status& status, const GemmTimings& timings,
          std::unique_ptr<AdmittedRequest> ended) mutable {
        StreamResult result;
        result.timings = timings;
        if (!ManagesAll(self->peer()->principal.get())) {
          // Others' requests may have shared the launch.
          result.timings.launch_rows = result.timings.launch_requests = 0;
        }
        const CallServices& services = self->handler_->services_;
        result.total = services.clock->Now() - ended->arrival;
        if (status.ok() && result.total >= services.slow_request) {
          LogSlowRequest({kMethod, *ended, timings, result.total},
                         *self->handler_->gemm_.store);
        }
        result.c = absl::MakeConstSpan(ended->c.data(), c_bytes);
        charge.Shrink(c_bytes);
        result.c_owner = std::make_shared<SentOperand>(
            self->live_calls(), std::move(ended->c), std::move(charge));
        result.fragment_bytes = fragment_bytes;
        // Releases the weights before the client can see the answer: it may
        // unload them then.
        ended.reset();
        self->OnComputed(id, status, std::move(result));
      });
}

absl::StatusOr<std::optional<GemmStreamCall::Copy>>
GemmStreamCall::AddFragment() {
  Copy copy;
  copy.id = message_.request_id();
  copy.offset = message_.fragment().offset();
  copy.bytes = a_.bytes;
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(ledger_.Continue(copy.id, copy.offset, a_.bytes));
  const auto found = live_.find(copy.id);
  if (found == live_.end()) return std::nullopt;  // it was refused
  copy.arriving = std::move(found->second.arriving);
  return copy;
}

absl::Status GemmStreamCall::CancelRequest() {
  const uint64_t id = message_.request_id();
  if (a_.bytes > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("request_id = ", id, ": cancel comes with ", a_.bytes,
                     " bytes of a; a must be empty"));
  }
  MutexLock lock(&mutex_);
  const auto found = live_.find(id);
  if (found != live_.end() && ledger_.IsComplete(id)) {
    *found->second.cancelled = true;
  } else if (found != live_.end()) {
    QueueError(id, absl::CancelledError("the client cancelled the request"));
  }
  ledger_.EndFragments(id);
  return absl::OkStatus();
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
  handler_->services_.metrics->RpcEnded(kMethod, absl::StatusCode::kOk,
                                        result.total);
  ready_.push_back({StreamAnswer(id, std::move(result))});
  Advance();
}

void GemmStreamCall::Fail(uint64_t id, const absl::Status& status,
                          absl::Duration retry_delay) {
  MutexLock lock(&mutex_);
  if (live_.count(id) == 0) return;
  QueueError(id, status, retry_delay);
  Advance();
}

void GemmStreamCall::QueueError(uint64_t id, const absl::Status& status,
                                absl::Duration retry_delay) {
  const auto found = live_.find(id);
  handler_->services_.metrics->RpcEnded(
      kMethod, status.code(),
      handler_->services_.clock->Now() - found->second.arrival);
  live_.erase(found);
  LogRefusal(kMethod, status, [this] { return peer(); });
  ready_.push_back({StreamAnswer(id, status, retry_delay)});
}

void GemmStreamCall::RefuseArriving(const absl::Status& status) {
  std::vector<uint64_t> refused;
  for (const auto& [id, unused] : live_) {
    if (!ledger_.IsComplete(id)) refused.push_back(id);
  }
  for (const uint64_t id : refused) QueueError(id, status);
}

void GemmStreamCall::BeginDrain() {
  MutexLock lock(&mutex_);
  draining_ = true;
  RefuseArriving(live_calls()->CheckServing());
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
      return Finish(ToGrpcStatus(live_calls()->CheckServing()));
    }
  }
  if (!reading_ && !copying_ && !half_closed_ && !broken_.has_value() &&
      HasRoom()) {
    StartRead();
  }
}

// Counts refusals of messages that are no request too.
bool GemmStreamCall::HasRoom() const {
  return ledger_.HasRoom() && static_cast<int64_t>(ready_.size()) <
                                  handler_->options_.stream.max_requests;
}

void GemmStreamCall::StartRead() {
  reading_ = true;
  stream_.Read(&received_, read_tag_.Arm(shared_from_this()));
}

// Sends the answers' messages in turn: no small answer waits for a large one.
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
  CountBytes(Direction::kSent, message);
  stream_.Write(message, written_tag_.Arm(shared_from_this()));
}

void GemmStreamCall::OnWritten(bool ok) {
  MutexLock lock(&mutex_);
  writing_ = false;
  ++messages_sent_;
  ledger_.Sent();
  if (ok) {
    Advance();
  } else {
    Break(grpc::Status::CANCELLED);
  }
}

void GemmStreamCall::Finish(const grpc::Status& status) {
  finished_ = true;
  if (handler_->calls_.Leave(this)) {
    handler_->services_.metrics->StreamsChanged(-1);
  }
  stream_.Finish(status, FinishTag());
}

void GemmStreamCall::OnDone() {
  MutexLock lock(&mutex_);
  Break(grpc::Status::CANCELLED);
}

}  // namespace qgemm
