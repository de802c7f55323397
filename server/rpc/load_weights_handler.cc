// SPDX-License-Identifier: Apache-2.0
//
// A call reads its stream on a completion queue and consumes the messages on
// worker threads, one at a time and in order: OnRead fills pending_, Work
// empties it, and the first to claim the answer sends it.

#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "rpc/grpc_status.h"
#include "server/rpc/handlers.h"
#include "server/rpc/translate.h"
#include "server/weights/upload_session.h"

namespace qgemm {

// Reads ahead by one message while another is consumed; the client is held
// back by gRPC's flow control then. Thread-safe; freed when gRPC's last
// operation and the last worker's task have ended.
class LoadWeightsHandler::Call final : public ServerCall<Call> {
 public:
  Call(LoadWeightsHandler* handler, CompletionQueue* queue)
      : ServerCall(handler->services_.live_calls, queue),
        handler_(handler),
        reader_(context()) {}

  // Ends the call with the error unless it has ended. The session is left to
  // the worker that may be using it.
  void Abort(const absl::Status& status);

 private:
  friend class ServerCall<Call>;
  using Message = v1::LoadWeightsRequest;

  void Await(void* tag);
  void AcceptNext() { handler_->Accept(queue()); }
  void Begin();
  void OnRead(bool ok);

  // Starts a read if there is room for a message.
  void ReadMore() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives the next message, or the stream's end, to a worker unless one works
  // on this call.
  void WakeWorker() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Consumes one message or the end of the stream, on a worker.
  void Work();
  void ConsumeNext(std::unique_ptr<Message> message);
  // Completes the upload if the status is an error or deduplicated_ is set.
  absl::Status Consume(const Message& message);
  absl::Status StartSession(const v1::WeightsHeader& header);
  absl::Status AppendChunk(const v1::WeightsChunk& chunk);
  void Commit();
  void End(absl::StatusOr<UploadResult> result);
  bool Claim();
  void Leave(absl::StatusCode code);
  v1::LoadWeightsResponse ToResponse(const UploadResult& result) const;

  LoadWeightsHandler* const handler_;
  absl::Time arrival_;
  grpc::ServerAsyncReader<v1::LoadWeightsResponse, Message> reader_;
  std::unique_ptr<UploadSession> session_;    // the worker's
  std::optional<Deduplicated> deduplicated_;  // the worker's

  Mutex mutex_;
  std::unique_ptr<Message> incoming_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Message> pending_ ABSL_GUARDED_BY(mutex_);
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool working_ ABSL_GUARDED_BY(mutex_) = false;
  bool stream_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;

  CallTag<Call, &Call::OnRead> read_tag_;
};

void LoadWeightsHandler::Call::Await(void* tag) {
  handler_->service_->RequestLoadWeights(context(), &reader_,
                                         queue()->server_queue(),
                                         queue()->server_queue(), tag);
}

void LoadWeightsHandler::Call::Begin() {
  arrival_ = handler_->services_.clock->Now();
  const absl::Status entered = handler_->uploads_.Enter(shared_from_this());
  if (absl::IsUnavailable(entered)) return Refuse(entered);
  if (!entered.ok()) return End(entered);
  MutexLock lock(&mutex_);
  ReadMore();
}

void LoadWeightsHandler::Call::OnRead(bool ok) {
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

void LoadWeightsHandler::Call::ReadMore() {
  if (reading_ || stream_ended_ || answered_ || pending_ != nullptr) return;
  reading_ = true;
  incoming_ = std::make_unique<Message>();
  reader_.Read(incoming_.get(), read_tag_.Arm(shared_from_this()));
}

void LoadWeightsHandler::Call::WakeWorker() {
  if (working_) return;
  working_ = true;
  handler_->workers_.Submit([self = shared_from_this()] { self->Work(); });
}

void LoadWeightsHandler::Call::Work() {
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

void LoadWeightsHandler::Call::ConsumeNext(std::unique_ptr<Message> message) {
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

absl::Status LoadWeightsHandler::Call::Consume(const Message& message) {
  switch (message.part_case()) {
    case Message::kHeader:
      return StartSession(message.header());
    case Message::kChunk:
      return AppendChunk(message.chunk());
    case Message::PART_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "the message has neither header nor chunk; set one of them");
}

absl::Status LoadWeightsHandler::Call::StartSession(
    const v1::WeightsHeader& header) {
  if (session_ != nullptr) {
    return absl::InvalidArgumentError(
        "a second header; an upload has one, in its first message");
  }
  const WeightsLimits& limits = handler_->limits_;
  ASSIGN_OR_RETURN(const UploadHeader upload, ToUploadHeader(header, limits));
  ASSIGN_OR_RETURN(UploadSession::Started started,
                   UploadSession::Start(upload, limits, handler_->backend_,
                                        handler_->store_));
  if (auto* const held = std::get_if<Deduplicated>(&started)) {
    deduplicated_ = std::move(*held);
  } else {
    session_ = std::get<std::unique_ptr<UploadSession>>(std::move(started));
  }
  return absl::OkStatus();
}

absl::Status LoadWeightsHandler::Call::AppendChunk(
    const v1::WeightsChunk& chunk) {
  if (session_ == nullptr) {
    return absl::InvalidArgumentError(
        "a chunk without a header; the first message must hold the header");
  }
  ASSIGN_OR_RETURN(const UploadChunk upload, ToUploadChunk(chunk));
  RETURN_IF_ERROR(session_->Append(upload));
  handler_->services_.metrics->AddUploadedBytes(upload.bytes.size());
  return absl::OkStatus();
}

void LoadWeightsHandler::Call::Commit() {
  if (session_ == nullptr) {
    End(absl::InvalidArgumentError(
        "the upload ended without a header; send one as its first message"));
    return;
  }
  End(session_->Finish());
}

bool LoadWeightsHandler::Call::Claim() {
  MutexLock lock(&mutex_);
  return !std::exchange(answered_, true);
}

void LoadWeightsHandler::Call::End(absl::StatusOr<UploadResult> result) {
  if (!Claim()) return;
  const absl::Status status = result.status();
  v1::LoadWeightsResponse response;
  if (status.ok()) response = ToResponse(*result);
  // Releases all that the upload took before the client can see the answer: if
  // it unloads the weights then, they are gone.
  result = absl::CancelledError("ended");
  session_.reset();
  Leave(status.code());
  if (status.ok()) {
    reader_.Finish(response, grpc::Status::OK, FinishTag());
  } else {
    reader_.FinishWithError(ToGrpcStatus(status), FinishTag());
  }
}

void LoadWeightsHandler::Call::Abort(const absl::Status& status) {
  if (!Claim()) return;
  Leave(status.code());
  reader_.FinishWithError(ToGrpcStatus(status), FinishTag());
}

void LoadWeightsHandler::Call::Leave(absl::StatusCode code) {
  const CallServices& services = handler_->services_;
  handler_->uploads_.Leave(this);
  services.metrics->RpcEnded("LoadWeights", code,
                             services.clock->Now() - arrival_);
}

v1::LoadWeightsResponse LoadWeightsHandler::Call::ToResponse(
    const UploadResult& result) const {
  v1::LoadWeightsResponse response;
  NamedWeights listing{result.weights, {}};
  const absl::StatusOr<NamedWeights> held =
      handler_->store_->Get(result.weights->id);
  if (held.ok()) listing.names = held->names;
  ToMessage(listing, response.mutable_weights());
  response.set_deduplicated(result.deduplicated);
  response.set_flushed_blocks(result.flushed_blocks);
  return response;
}

LoadWeightsHandler::LoadWeightsHandler(const CallServices& services,
                                       Backend* backend, WeightStore* store,
                                       AsyncQgemm* service,
                                       const RpcOptions& options)
    : services_(services),
      backend_(backend),
      store_(store),
      service_(service),
      limits_(options.weights_limits),
      uploads_(services.live_calls, {static_cast<size_t>(options.max_uploads),
                                     "uploads", "--max_uploads"}),
      workers_(options.max_uploads) {}

LoadWeightsHandler::~LoadWeightsHandler() = default;

void LoadWeightsHandler::Accept(CompletionQueue* queue) {
  std::make_shared<Call>(this, queue)->Accept();
}

void LoadWeightsHandler::EndUploads() {
  for (const std::shared_ptr<Call>& call : uploads_.Calls()) {
    call->Abort(absl::UnavailableError(
        "the server is draining; upload to another replica"));
  }
}

}  // namespace qgemm
