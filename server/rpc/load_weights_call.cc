// SPDX-License-Identifier: Apache-2.0
//
// A call reads its stream on a completion queue, and parses and consumes the
// messages on worker threads, one at a time and in order: OnRead fills
// pending_, Work empties it, and the first to claim the answer sends it.

#include "server/rpc/load_weights_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "rpc/grpc_status.h"
#include "rpc/payload_message.h"
#include "server/rpc/translate.h"
#include "server/rpc/upload_message.h"

namespace qgemm {
namespace {

absl::Status Idle(const ProgressLimits& limits, int64_t bytes) {
  return absl::DeadlineExceededError(
      absl::StrCat("the upload made no progress for ",
                   absl::FormatDuration(limits.idle_timeout),
                   " (--idle_timeout) after ", bytes, " bytes; upload again"));
}

absl::Status Slow(const ProgressLimits& limits, int64_t bytes) {
  return absl::DeadlineExceededError(absl::StrCat(
      "the upload brought fewer than ", limits.min_bytes_per_second,
      " bytes a second (--min_upload_bytes_per_second), ", bytes,
      " bytes in all; upload again over a faster connection"));
}

}  // namespace

LoadWeightsCall::LoadWeightsCall(LoadWeightsHandler* handler,
                                 CompletionQueue* queue)
    : ServerCall(handler->services_,
                 {"LoadWeights", RpcAccess::Needs(Right::kLoad)}, queue),
      handler_(handler),
      reader_(context()) {}

void LoadWeightsCall::AcceptNext() { handler_->Accept(queue()); }

void LoadWeightsCall::Await(void* tag) {
  handler_->service_->RequestLoadWeights(context(), &reader_,
                                         queue()->server_queue(),
                                         queue()->server_queue(), tag);
}

void LoadWeightsCall::Begin() {
  const CallServices& services = handler_->services_;
  arrival_ = services.clock->Now();
  services.metrics->UploadsChanged(1);  // until Leave, which ends every call
  const absl::StatusOr<std::shared_ptr<LoadWeightsCall>> displaced =
      handler_->uploads_.Enter(shared_from_this(), peer()->identity,
                               QuotaOf(*peer(), &Quota::uploads));
  if (absl::IsUnavailable(displaced.status())) {
    return Refuse(displaced.status());
  }
  if (!displaced.ok()) return End(displaced.status());
  if (*displaced != nullptr) {
    (*displaced)->Abort(handler_->uploads_.Displaced());
  }
  MutexLock lock(&mutex_);
  ReadMore();
}

void LoadWeightsCall::Deny(const absl::Status& status) {
  if (!Claim(status.code())) return;
  reader_.FinishWithError(ToGrpcStatus(status), FinishTag());
}

void LoadWeightsCall::OnRead(bool ok) {
  MutexLock lock(&mutex_);
  reading_ = false;
  if (ok) {
    pending_ = std::exchange(incoming_, grpc::ByteBuffer());
    WakeWorker();
    return ReadMore();
  }
  if (stream_ == Stream::kOpen) stream_ = Stream::kStopped;
  if (stream_ == Stream::kStopped && !answered_) return Probe();
  WakeWorker();
}

void LoadWeightsCall::Probe() {
  reader_.SendInitialMetadata(probe_tag_.Arm(shared_from_this()));
}

void LoadWeightsCall::OnProbed(bool ok) {
  MutexLock lock(&mutex_);
  if (stream_ == Stream::kStopped) {
    stream_ = ok ? Stream::kEnded : Stream::kGone;
  }
  WakeWorker();
}

void LoadWeightsCall::OnDone() {
  if (!context()->IsCancelled()) return;
  MutexLock lock(&mutex_);
  stream_ = Stream::kGone;
  WakeWorker();
}

void LoadWeightsCall::OnSweep(const SweepRound& round) {
  const absl::Status allowed = CurrentPeer().status();
  if (!allowed.ok()) {
    Abort(allowed);
    return;
  }
  {
    MutexLock lock(&mutex_);
    const bool is_held_up_by_us =
        stream_ != Stream::kOpen || turn_ != Turn::kNone ||
        (working_ && messages_ == messages_at_last_look_);
    messages_at_last_look_ = messages_;
    if (is_held_up_by_us) return watch_.Reset();
  }
  const int64_t bytes = consumed_bytes_.load(std::memory_order_relaxed);
  const Progress progress = watch_.Look(bytes, round.limits, round.now);
  if (progress == Progress::kFine) return;
  const bool is_idle = progress == Progress::kIdle;
  if (Abort(is_idle ? Idle(round.limits, bytes) : Slow(round.limits, bytes))) {
    round.metrics->CallTimedOut(is_idle ? "upload_idle" : "upload_rate");
  }
}

void LoadWeightsCall::ReadMore() {
  if (reading_ || stream_ != Stream::kOpen || answered_ ||
      pending_.has_value()) {
    return;
  }
  reading_ = true;
  reader_.Read(&incoming_, read_tag_.Arm(shared_from_this()));
}

bool LoadWeightsCall::HasStep() const {
  if (answered_) return pending_.has_value() || claim_ || session_ != nullptr;
  if (stream_ == Stream::kGone) return true;
  if (turn_ != Turn::kNone) return turn_ == Turn::kCome;
  return pending_.has_value() || stream_ == Stream::kEnded;
}

void LoadWeightsCall::WakeWorker() {
  if (working_) return;
  working_ = true;
  handler_->workers_.Submit([self = shared_from_this()] { self->Work(); });
}

void LoadWeightsCall::Work() {
  std::optional<grpc::ByteBuffer> message;
  bool answered;
  absl::StatusCode answer;
  Stream stream;
  Turn turn;
  {
    MutexLock lock(&mutex_);
    answered = answered_;
    answer = answer_;
    stream = stream_;
    turn = turn_;
    if (turn == Turn::kNone || answered) {
      message = std::exchange(pending_, std::nullopt);
    }
    ReadMore();
  }
  if (answered) {
    LetGo(answer);
  } else if (stream == Stream::kGone) {
    End(CheckWanted());
  } else if (turn == Turn::kCome) {
    EndUnlessWanted(StartUpload(*std::exchange(header_, std::nullopt)));
  } else if (turn == Turn::kAwaited) {
    // OnTurn goes on.
  } else if (message.has_value()) {
    EndUnlessWanted(Consume(&*message));
  } else if (stream == Stream::kEnded) {
    Commit();
  }
  MutexLock lock(&mutex_);
  ++messages_;
  working_ = false;
  if (HasStep()) WakeWorker();
}

void LoadWeightsCall::EndUnlessWanted(const absl::Status& status) {
  if (!status.ok()) {
    End(status);
  } else if (deduplicated_.has_value()) {
    UploadResult held = std::move(deduplicated_->result);
    deduplicated_.reset();
    End(std::move(held));
  }
}

absl::Status LoadWeightsCall::Consume(grpc::ByteBuffer* bytes) {
  CountMessage(*peer(), Direction::kReceived,
               static_cast<int64_t>(bytes->Length()),
               handler_->services_.metrics);
  v1::LoadWeightsRequest message;
  RETURN_IF_ERROR(ReadUploadMessage(bytes, &message));
  switch (message.part_case()) {
    case v1::LoadWeightsRequest::kHeader:
      return StartSession(message.header());
    case v1::LoadWeightsRequest::kChunk:
      return AppendChunk(message.chunk());
    case v1::LoadWeightsRequest::PART_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "the message has neither header nor chunk; set one of them");
}

void LoadWeightsCall::Commit() {
  if (session_ == nullptr) {
    End(absl::InvalidArgumentError(
        "the upload ended without a header; send one as its first message"));
    return;
  }
  End(session_->Finish([this] { return CheckWanted(); }));
}

absl::Status LoadWeightsCall::CheckWanted() {
  MutexLock lock(&mutex_);
  if (answered_) return absl::CancelledError("the upload has ended");
  if (stream_ != Stream::kGone) return absl::OkStatus();
  return absl::CancelledError(
      "the call was cancelled, or its deadline passed, before the upload was "
      "complete");
}

bool LoadWeightsCall::Claim(absl::StatusCode code) {
  MutexLock lock(&mutex_);
  if (std::exchange(answered_, true)) return false;
  answer_ = code;
  return true;
}

void LoadWeightsCall::End(absl::StatusOr<UploadResult> result) {
  if (!Claim(result.status().code())) return;
  LogEnd(result);
  const absl::Status status = result.status();
  grpc::ByteBuffer response;
  if (status.ok()) response = WriteMessage(ToResponse(*result));
  // Releases all that the upload took before the client can see the answer: if
  // it unloads the weights then, they are gone.
  result = absl::CancelledError("ended");
  LetGo(status.code());
  Leave(status.code());
  if (status.ok()) {
    reader_.Finish(response, grpc::Status::OK, FinishTag());
  } else {
    reader_.FinishWithError(ToGrpcStatus(status), FinishTag());
  }
}

bool LoadWeightsCall::Abort(const absl::Status& status) {
  if (!Claim(status.code())) return false;
  LogEnd(status);
  Leave(status.code());
  reader_.FinishWithError(ToGrpcStatus(status), FinishTag());
  MutexLock lock(&mutex_);
  WakeWorker();
  return true;
}

void LoadWeightsCall::Leave(absl::StatusCode code) {
  const CallServices& services = handler_->services_;
  handler_->uploads_.Leave(this);
  services.metrics->UploadsChanged(-1);
  services.metrics->RpcEnded("LoadWeights", code,
                             services.clock->Now() - arrival_);
}

void LoadWeightsCall::LogEnd(const absl::StatusOr<UploadResult>& result) const {
  const bool is_whole = result.ok() && !result->deduplicated;
  const std::string code = absl::StatusCodeToString(result.status().code());
  LogEvent event(result.ok() ? LogSeverity::kInfo : LogSeverity::kWarning,
                 __FILE__, __LINE__,
                 is_whole      ? "upload_committed"
                 : result.ok() ? "weights_bound"
                               : "upload_aborted",
                 code);
  if (!event.is_written()) return;
  if (result.ok()) {
    event.With("id", result->weights->id).With("name", name_);
  } else {
    event.With("code", code).With("error", result.status().message());
  }
  event.With("bytes", consumed_bytes_.load(std::memory_order_relaxed))
      .With("took", handler_->services_.clock->Now() - arrival_)
      .With("client", peer()->identity)
      .With("address", peer()->address);
}

}  // namespace qgemm
