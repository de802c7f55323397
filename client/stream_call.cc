// SPDX-License-Identifier: Apache-2.0
//
// GemmStream is the caller's end of the call; both are here.

#include "client/stream_call.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "qgemm/gemm_stream.h"
#include "rpc/grpc_status.h"

namespace qgemm {
namespace {

constexpr char kMethod[] = "/qgemm.v1.Qgemm/GemmStream";

// The largest result that memory is taken for before it comes.
constexpr uint64_t kReserveBytes = uint64_t{1} << 30;

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
  grpc::GenericStub stub(engine_->NextStreamChannel());
  MutexLock lock(&mutex_);
  call_ = stub.PrepareCall(&context_, kMethod, engine_->queue());
  call_->StartCall(started_tag_.Arm(shared_from_this()));
  return absl::OkStatus();
}

absl::Status StreamCall::Check(const GemmRequest& request) const {
  RETURN_IF_ERROR(CheckOperand(request));
  const int64_t a_bytes = request.a.size();
  if (a_bytes > options_.max_operand_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a has ", a_bytes, " bytes; the server's limit is ",
        options_.max_operand_bytes,
        " (--max_stream_operand_bytes); send fewer rows a request"));
  }
  if (request.deadline <= absl::Now()) {
    return absl::DeadlineExceededError(
        "GemmRequest::deadline has passed already; nothing was sent");
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> StreamCall::Submit(const GemmRequest& request,
                                            GemmCallback callback) {
  // Made first, so that a borrowed A is released whatever becomes of it.
  grpc::Slice operand = OperandToWire(request);
  RETURN_IF_ERROR(Check(request));
  Outgoing outgoing = MessageOf(request, std::move(operand));
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(AwaitPlace());
  const uint64_t id = next_id_++;
  Outstanding& outstanding = outstanding_[id];
  outstanding.callback = std::move(callback);
  outstanding.expected = ExpectedResult(request);
  outgoing.message.set_request_id(id);
  outgoing_.push_back(std::move(outgoing));
  WriteNext();
  return id;
}

StreamCall::Outgoing StreamCall::MessageOf(const GemmRequest& request,
                                           grpc::Slice operand) const {
  Outgoing outgoing;
  v1::GemmStreamOpen& open = *outgoing.message.mutable_open();
  *open.mutable_gemm() = HeaderToWire(request);
  open.set_a_bytes(operand.size());
  open.set_timeout_ns(TimeoutNs(request.deadline));
  open.set_c_fragment_bytes(options_.c_fragment_bytes);
  outgoing.operand = std::move(operand);
  return outgoing;
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
      std::min(next.operand.size(),
               begin + static_cast<size_t>(options_.a_fragment_bytes));
  std::string prefix = next.message.SerializeAsString();
  if (end > begin) prefix += PayloadPrefix(end - begin);
  const grpc::Slice slices[2] = {grpc::Slice(prefix),
                                 next.operand.sub(begin, end)};
  const grpc::ByteBuffer message(slices, end > begin ? 2 : 1);
  if (end == next.operand.size()) {
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
  for (Ended& each : all) each.callback(std::move(each.result));
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
  ended.push_back({std::move(request->callback),
                   failed ? absl::StatusOr<GemmResult>(ErrorOf(header.error()))
                          : std::move(request->result)});
  outstanding_.erase(header.request_id());
  changed_.SignalAll();
  return ended;
}

absl::Status StreamCall::TakeFragment(const v1::GemmStreamResponse& header,
                                      const ReceivedPayload& c,
                                      Outstanding* request) {
  absl::StatusOr<GemmResult>& result = request->result;
  if (request->c_bytes == 0) {
    result = ResultOfSize(header.c_bytes(), request->expected);
    // Memory of another size is this request's fault, not the stream's.
    if (absl::IsInternal(result.status())) return result.status();
    request->c_bytes = header.c_bytes();
    if (result.ok()) {
      result->timings = FromWire(header.timings());
      if (request->expected.c.empty()) {
        result->c.reserve(std::min(request->c_bytes, kReserveBytes));
      }
    }
  }
  const uint64_t missing_bytes = request->c_bytes - request->received_bytes;
  if (header.offset() != request->received_bytes || c.bytes == 0 ||
      static_cast<uint64_t>(c.bytes) > missing_bytes) {
    return Unexpected(header, absl::StrCat("has ", c.bytes, " bytes at offset ",
                                           header.offset(), "; ", missing_bytes,
                                           " are missing from ",
                                           request->received_bytes, " on"));
  }
  if (result.ok()) {
    AppendC(c.pieces, request->received_bytes, request->expected, &*result);
  }
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
  for (Ended& each : all) each.callback(std::move(each.result));
  all.clear();  // what callbacks captured goes before the engine may
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
    all.push_back({std::move(request.callback), broken_});
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

void GemmStream::Cancel(uint64_t request) { call_->Cancel(request); }

absl::Status GemmStream::Finish() { return call_->Finish(); }

}  // namespace qgemm
