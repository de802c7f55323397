// SPDX-License-Identifier: Apache-2.0
//
// The state machine: OnRead fills pending_, Work empties it, the first to
// claim the answer sends it. Only Work touches the session, so that it dies
// where nobody uses it.

#include "server/rpc/upload_call.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/translate.h"

namespace qgemm {

UploadCall::UploadCall(UploadAdmission* admission,
                       const RpcEnvironment* environment, WorkerPool* workers,
                       CompletionQueue* queue)
    : admission_(admission),
      environment_(environment),
      workers_(workers),
      queue_(queue),
      token_(environment->live_calls),
      reader_(&context_) {}

void UploadCall::Accept() {
  environment_->service->RequestLoadWeights(
      &context_, &reader_, queue_->queue(), queue_->queue(),
      accepted_tag_.Arm(shared_from_this()));
}

void UploadCall::OnAccepted(bool ok) {
  if (!ok) return;
  admission_->Accept(queue_);
  arrival_ = environment_->clock->Now();
  const absl::Status admitted = admission_->Admit(shared_from_this());
  if (absl::IsUnavailable(admitted)) {
    environment_->live_calls->Refuse(
        [self = shared_from_this(), admitted] { self->End(admitted); });
    return;
  }
  if (!admitted.ok()) {
    End(admitted);
    return;
  }
  MutexLock lock(&mutex_);
  ReadMore();
}

void UploadCall::OnRead(bool ok) {
  MutexLock lock(&mutex_);
  reading_ = false;
  if (ok) {
    pending_ = std::move(incoming_);
  } else {
    stream_ended_ = true;  // half-closed by the client, or gone
    incoming_.reset();
  }
  WakeWorker();
  ReadMore();
}

void UploadCall::ReadMore() {
  if (reading_ || stream_ended_ || answered_ || pending_ != nullptr) return;
  reading_ = true;
  incoming_ = std::make_unique<Message>();
  reader_.Read(incoming_.get(), read_tag_.Arm(shared_from_this()));
}

void UploadCall::WakeWorker() {
  if (working_) return;
  working_ = true;
  workers_->Submit([self = shared_from_this()] { self->Work(); });
}

void UploadCall::Work() {
  std::unique_ptr<Message> message;
  bool answered;
  {
    MutexLock lock(&mutex_);
    answered = answered_;
    message = std::move(pending_);
    ReadMore();
  }
  if (answered) {
    session_.reset();
  } else if (message != nullptr) {
    ConsumeNext(std::move(message));
  } else {
    Commit();
  }
  MutexLock lock(&mutex_);
  working_ = false;
  if (pending_ != nullptr || (stream_ended_ && !answered_)) WakeWorker();
}

void UploadCall::ConsumeNext(std::unique_ptr<Message> message) {
  const absl::Status status = Consume(*message);
  message.reset();
  if (!status.ok()) {
    End(status);
  } else if (deduplicated_.has_value()) {
    UploadResult held = std::move(deduplicated_->result);
    deduplicated_.reset();
    End(std::move(held));
  }
}

absl::Status UploadCall::Consume(const Message& message) {
  switch (message.part_case()) {
    case Message::kHeader:
      return StartSession(message.header());
    case Message::kChunk:
      return AppendChunk(message.chunk());
    case Message::PART_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "a message of the upload is empty; it must hold a header or a chunk");
}

absl::Status UploadCall::StartSession(const v1::WeightsHeader& header) {
  if (session_ != nullptr) {
    return absl::InvalidArgumentError(
        "a second header; an upload has one, in its first message");
  }
  const WeightsLimits& limits = environment_->options.weights_limits;
  ASSIGN_OR_RETURN(const UploadHeader upload, ToUploadHeader(header, limits));
  ASSIGN_OR_RETURN(UploadSession::Started started,
                   UploadSession::Start(upload, limits, environment_->backend,
                                        environment_->store));
  if (auto* const held = std::get_if<Deduplicated>(&started)) {
    deduplicated_ = std::move(*held);
  } else {
    session_ = std::get<std::unique_ptr<UploadSession>>(std::move(started));
  }
  return absl::OkStatus();
}

absl::Status UploadCall::AppendChunk(const v1::WeightsChunk& chunk) {
  if (session_ == nullptr) {
    return absl::InvalidArgumentError(
        "a chunk without a header; the first message must hold the header");
  }
  ASSIGN_OR_RETURN(const UploadChunk upload, ToUploadChunk(chunk));
  RETURN_IF_ERROR(session_->Append(upload));
  environment_->metrics->AddUploadedBytes(upload.bytes.size());
  return absl::OkStatus();
}

void UploadCall::Commit() {
  if (session_ == nullptr) {
    End(absl::InvalidArgumentError("the upload has no header"));
    return;
  }
  End(session_->Finish());
}

bool UploadCall::Claim() {
  MutexLock lock(&mutex_);
  return !std::exchange(answered_, true);
}

void UploadCall::End(absl::StatusOr<UploadResult> result) {
  if (!Claim()) return;
  const absl::Status status = result.status();
  v1::LoadWeightsResponse response;
  if (status.ok()) response = ToResponse(*result);
  // All that the upload took goes back before its caller hears of the end:
  // who unloads the weights then finds them gone.
  result = absl::CancelledError("ended");
  session_.reset();
  admission_->Leave(this);
  environment_->metrics->RpcEnded("LoadWeights", status.code(),
                                  environment_->clock->Now() - arrival_);
  void* const tag = finished_tag_.Arm(shared_from_this());
  if (status.ok()) {
    reader_.Finish(response, grpc::Status::OK, tag);
  } else {
    reader_.FinishWithError(ToGrpcStatus(status), tag);
  }
}

void UploadCall::Refuse(const absl::Status& status) {
  if (!Claim()) return;
  admission_->Leave(this);
  environment_->metrics->RpcEnded("LoadWeights", status.code(),
                                  environment_->clock->Now() - arrival_);
  reader_.FinishWithError(ToGrpcStatus(status),
                          finished_tag_.Arm(shared_from_this()));
}

v1::LoadWeightsResponse UploadCall::ToResponse(
    const UploadResult& result) const {
  v1::LoadWeightsResponse response;
  WeightsListing listing{result.weights, {}};
  const absl::StatusOr<WeightsListing> held =
      environment_->store->Describe(result.weights->id);
  if (held.ok()) listing.names = held->names;
  ToMessage(listing, response.mutable_weights());
  response.set_deduplicated(result.deduplicated);
  response.set_flushed_blocks(result.flushed_blocks);
  return response;
}

}  // namespace qgemm
