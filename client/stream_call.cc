// SPDX-License-Identifier: Apache-2.0
//
// GemmStream is the caller's end of the call; both are here.

#include "client/stream_call.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/device_operands.h"
#include "client/gemm_wire.h"
#include "client/run_wire.h"
#include "qgemm/gemm_stream.h"
#include "rpc/grpc_status.h"

namespace qgemm {
namespace {

constexpr char kMethod[] = "/qgemm.v1.Qgemm/GemmStream";

// The bytes [begin, end) of slices that stand one behind the other, behind
// those that are in `message` already.
void AppendRange(const std::vector<grpc::Slice>& slices, size_t begin,
                 size_t end, std::vector<grpc::Slice>* message) {
  size_t at = 0;  // of the slice
  for (const grpc::Slice& slice : slices) {
    const size_t from = std::max(begin, at);
    const size_t to = std::min(end, at + slice.size());
    if (from < to) message->push_back(slice.sub(from - at, to - at));
    at += slice.size();
  }
}

// At least 1, for a deadline that has not passed; 0 for none.
uint64_t TimeoutNs(absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) return 0;
  return std::max<int64_t>(1, absl::ToInt64Nanoseconds(deadline - absl::Now()));
}

absl::Status Unexpected(const v1::GemmStreamResponse& header,
                        absl::string_view problem) {
  return absl::InternalError(absl::StrCat("the server's answer to request ",
                                          header.request_id(), " ", problem));
}

// With the time to retry, if the server named one.
absl::Status ErrorOf(const v1::GemmStreamError& error) {
  absl::Status status(static_cast<absl::StatusCode>(error.code()),
                      error.message());
  if (error.retry_delay_ns() == 0) return status;
  const uint64_t delay_ns = std::min<uint64_t>(
      error.retry_delay_ns(), std::numeric_limits<int64_t>::max());
  return WithRetryDelay(std::move(status),
                        absl::Nanoseconds(static_cast<int64_t>(delay_ns)));
}

}  // namespace

StreamCall::StreamCall(const StreamCallOptions& options, CallEngine* engine)
    : options_(options), engine_(engine) {}

absl::Status StreamCall::Start() {
  SetContextDeadline(options_.deadline, &context_);
  if (!engine_->Enter(&context_)) {
    return absl::CancelledError("the client was destroyed");
  }
  engine_->Authorize(&context_);
  ChannelPool::Request where;
  where.is_stream = true;
  where.server = options_.server;
  place_ = engine_->pool().Enter(where);
  grpc::GenericStub stub(place_.channel);
  MutexLock lock(&mutex_);
  call_ = stub.PrepareCall(&context_, kMethod, engine_->queue());
  call_->StartCall(started_tag_.Arm(shared_from_this()));
  return absl::OkStatus();
}

absl::Status StreamCall::CheckOperandFits(absl::string_view subject,
                                          int64_t bytes) const {
  if (bytes <= options_.max_operand_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(subject, " ", bytes, " bytes; the server's limit is ",
                   options_.max_operand_bytes,
                   " (--max_stream_operand_bytes); send fewer rows a request"));
}

absl::StatusOr<uint64_t> StreamCall::Submit(const GemmRequest& request,
                                            GemmCallback callback) {
  RETURN_IF_ERROR(
      CheckOnHost(options_.device_operands, request, CheckOperand(request)));
  // Made first, so that a borrowed A is released whatever becomes of it.
  std::vector<grpc::Slice> operand = {OperandToWire(request)};
  RETURN_IF_ERROR(CheckOperand(request));
  RETURN_IF_ERROR(CheckOperandFits("a has", request.a.size()));
  v1::GemmStreamOpen open;
  *open.mutable_gemm() = HeaderToWire(request);
  open.set_a_bytes(request.a.size());
  return Send(std::move(open), request.deadline, std::move(operand),
              std::make_unique<PendingAnswerOf<GemmResult, ExpectedResult>>(
                  ExpectedResult(request), std::move(callback)));
}

absl::StatusOr<uint64_t> StreamCall::Submit(const RunRequest& request,
                                            RunCallback callback) {
  RETURN_IF_ERROR(
      CheckOnHost(options_.device_operands, request, CheckInputs(request)));
  // Made first, so that borrowed inputs are released whatever becomes of them.
  std::vector<grpc::Slice> operand = InputsToWire(request);
  RETURN_IF_ERROR(CheckInputs(request));
  RETURN_IF_ERROR(CheckOperandFits("the inputs have", InputBytes(request)));
  v1::GemmStreamOpen open;
  *open.mutable_run() = HeaderToWire(request);
  open.set_a_bytes(InputBytes(request));
  return Send(std::move(open), request.deadline, std::move(operand),
              std::make_unique<PendingAnswerOf<RunResult, ExpectedOutputs>>(
                  ExpectedOutputs(request), std::move(callback)));
}

absl::StatusOr<uint64_t> StreamCall::Send(
    v1::GemmStreamOpen open, absl::Time deadline,
    std::vector<grpc::Slice> operand, std::unique_ptr<PendingAnswer> answer) {
  if (deadline <= absl::Now()) {
    return absl::DeadlineExceededError(
        "the request's deadline has passed already; nothing was sent");
  }
  open.set_timeout_ns(TimeoutNs(deadline));
  open.set_c_fragment_bytes(options_.c_fragment_bytes);
  Outgoing outgoing;
  outgoing.operand = std::move(operand);
  outgoing.operand_bytes = open.a_bytes();
  *outgoing.message.mutable_open() = std::move(open);
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(AwaitPlace());
  const uint64_t id = next_id_++;
  outstanding_[id].answer = std::move(answer);
  outgoing.message.set_request_id(id);
  outgoing_.push_back(std::move(outgoing));
  WriteNext();
  return id;
}

absl::Status StreamCall::AwaitPlace() {
  const bool may_wait = !engine_->OnEngineThread();
  while (may_wait && broken_.ok() && !over_ && !half_close_ &&
         static_cast<int>(outstanding_.size()) >= options_.window) {
    changed_.Wait(&mutex_);
  }
  RETURN_IF_ERROR(broken_);
  if (!half_close_ && !over_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the stream was finished and takes no more requests; open another");
}

void StreamCall::Cancel(uint64_t id) {
  MutexLock lock(&mutex_);
  if (outstanding_.count(id) == 0) return;
  Outgoing cancel;
  cancel.message.set_request_id(id);
  cancel.message.mutable_cancel();
  const auto unsent = std::find_if(
      outgoing_.begin(), outgoing_.end(),
      [id](const auto& each) { return each.message.request_id() == id; });
  if (unsent == outgoing_.end()) {
    outgoing_.push_back(std::move(cancel));
  } else if (unsent->begun) {
    *unsent = std::move(cancel);  // in place of the rest of A
  } else if (!unsent->message.has_cancel()) {
    outgoing_.insert(unsent + 1, std::move(cancel));
  }
  WriteNext();
}

absl::Status StreamCall::Finish() {
  if (engine_->OnEngineThread()) {
    return absl::FailedPreconditionError(
        "Finish inside a callback would wait for itself; call it on another "
        "thread");
  }
  MutexLock lock(&mutex_);
  half_close_ = true;
  changed_.SignalAll();
  WriteNext();
  while (!ended_) changed_.Wait(&mutex_);
  return broken_;
}

void StreamCall::Abandon() {
  MutexLock lock(&mutex_);
  if (ended_) return;
  abandoned_ = true;
  context_.TryCancel();
  if (engine_->OnEngineThread()) return;
  while (!ended_) changed_.Wait(&mutex_);
}

void StreamCall::WriteNext() {
  if (!started_ || writing_ || unwritable_ || half_closed_) return;
  if (outgoing_.empty()) {
    if (!half_close_) return;
    half_closed_ = true;
    call_->WritesDone(half_closed_tag_.Arm(shared_from_this()));
    return;
  }
  Outgoing& next = outgoing_.front();
  const size_t begin = next.sent_bytes;
  const size_t end =
      std::min(next.operand_bytes,
               begin + static_cast<size_t>(options_.a_fragment_bytes));
  std::string prefix = next.message.SerializeAsString();
  if (end > begin) prefix += PayloadPrefix(end - begin);
  std::vector<grpc::Slice> slices = {grpc::Slice(prefix)};
  AppendRange(next.operand, begin, end, &slices);
  const grpc::ByteBuffer message(slices.data(), slices.size());
  if (end == next.operand_bytes) {
    outgoing_.pop_front();
  } else {
    next.message.mutable_fragment()->set_offset(end);
    next.sent_bytes = end;
    next.begun = true;
  }
  writing_ = true;
  call_->Write(message, written_tag_.Arm(shared_from_this()));
}

void StreamCall::ReadNext() {
  call_->Read(&received_, read_tag_.Arm(shared_from_this()));
}

void StreamCall::OnStarted(bool ok) {
  MutexLock lock(&mutex_);
  started_ = true;
  if (!ok) {
    unwritable_ = true;
    call_->Finish(&status_, finished_tag_.Arm(shared_from_this()));
    return;
  }
  ReadNext();
  WriteNext();
}

void StreamCall::OnWritten(bool ok) {
  MutexLock lock(&mutex_);
  writing_ = false;
  if (!ok) unwritable_ = true;  // the call has ended, as the reader will hear
  WriteNext();
}

void StreamCall::OnRead(bool ok) {
  std::vector<Ended> all;
  absl::Status taken;
  if (ok) {
    absl::StatusOr<std::vector<Ended>> ended = Take();
    taken = ended.status();
    if (ended.ok()) all = *std::move(ended);
  }
  received_.Clear();
  {
    MutexLock lock(&mutex_);
    if (!taken.ok()) {
      broken_.Update(taken);
      context_.TryCancel();
    }
    if (ok) {
      ReadNext();
    } else {
      unwritable_ = true;
      call_->Finish(&status_, finished_tag_.Arm(shared_from_this()));
    }
  }
  for (Ended& each : all) each.Run();
}

absl::StatusOr<std::vector<StreamCall::Ended>> StreamCall::Take() {
  v1::GemmStreamResponse header;
  ReceivedPayload c;
  if (!ReadPayloadMessage(&received_, &header, &c).ok()) {
    return absl::InternalError("the server's answer does not parse");
  }
  Outstanding* request = nullptr;
  {
    MutexLock lock(&mutex_);
    const auto found = outstanding_.find(header.request_id());
    if (found == outstanding_.end()) {
      return Unexpected(header, "belongs to no outstanding request");
    }
    request = &found->second;  // stays there, as only this thread takes it out
  }
  const bool failed = header.has_error();
  if (!failed) RETURN_IF_ERROR(TakeFragment(header, c, request));
  std::vector<Ended> ended;
  if (!failed && request->received_bytes < request->c_bytes) return ended;
  if (failed && header.error().code() == 0) {
    return Unexpected(header, "is an error with the code OK");
  }
  MutexLock lock(&mutex_);
  ended.push_back({std::move(request->answer),
                   failed ? ErrorOf(header.error()) : absl::OkStatus()});
  outstanding_.erase(header.request_id());
  changed_.SignalAll();
  return ended;
}

absl::Status StreamCall::TakeFragment(const v1::GemmStreamResponse& header,
                                      const ReceivedPayload& c,
                                      Outstanding* request) {
  if (request->c_bytes == 0) {
    RETURN_IF_ERROR(request->answer->Begin(header));
    request->c_bytes = header.c_bytes();
  }
  const uint64_t missing_bytes = request->c_bytes - request->received_bytes;
  if (header.offset() != request->received_bytes || c.bytes == 0 ||
      static_cast<uint64_t>(c.bytes) > missing_bytes) {
    return Unexpected(header, absl::StrCat("has ", c.bytes, " bytes at offset ",
                                           header.offset(), "; ", missing_bytes,
                                           " are missing from ",
                                           request->received_bytes, " on"));
  }
  request->answer->Append(c.pieces, request->received_bytes);
  request->received_bytes += c.bytes;
  return absl::OkStatus();
}

void StreamCall::OnFinished(bool) {
  std::vector<Ended> all;
  {
    MutexLock lock(&mutex_);
    broken_.Update(ReasonOf(status_));
    over_ = true;
    changed_.SignalAll();
    all = TakeAll();
    outgoing_.clear();
  }
  for (Ended& each : all) each.Run();
  all.clear();  // what callbacks captured goes before the engine may
  engine_->pool().Leave(place_, ToAbslStatus(status_));
  engine_->Leave(&context_);
  MutexLock lock(&mutex_);
  ended_ = true;
  changed_.SignalAll();
}

absl::Status StreamCall::ReasonOf(const grpc::Status& status) const {
  const bool lacks_answers = status.ok() && !outstanding_.empty();
  if ((lacks_answers || status.error_code() == grpc::StatusCode::CANCELLED) &&
      (abandoned_ || engine_->IsShutDown())) {
    return absl::CancelledError("the stream was destroyed");
  }
  if (!lacks_answers) return ToAbslStatus(status);
  return absl::InternalError("the server ended the stream without an answer");
}

std::vector<StreamCall::Ended> StreamCall::TakeAll() {
  std::vector<Ended> all;
  for (auto& [unused, request] : outstanding_) {
    all.push_back({std::move(request.answer), broken_});
  }
  outstanding_.clear();
  return all;
}

GemmStream::GemmStream(std::shared_ptr<StreamCall> call,
                       std::shared_ptr<void> owner)
    : owner_(std::move(owner)), call_(std::move(call)) {}

GemmStream::~GemmStream() { call_->Abandon(); }

absl::StatusOr<uint64_t> GemmStream::Submit(const GemmRequest& request,
                                            GemmCallback callback) {
  return call_->Submit(request, std::move(callback));
}

absl::StatusOr<uint64_t> GemmStream::Submit(const RunRequest& request,
                                            RunCallback callback) {
  return call_->Submit(request, std::move(callback));
}

void GemmStream::Cancel(uint64_t request) { call_->Cancel(request); }

absl::Status GemmStream::Finish() { return call_->Finish(); }

}  // namespace qgemm
