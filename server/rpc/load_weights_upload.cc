// SPDX-License-Identifier: Apache-2.0
//
// The work of an upload's call on its session: which one it has, and what
// becomes of that when the call ends.

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "base/log.h"
#include "base/status_macros.h"
#include "server/rpc/load_weights_call.h"
#include "server/rpc/translate.h"
#include "server/weights/owners.h"

namespace qgemm {

absl::Status LoadWeightsCall::StartSession(const v1::WeightsHeader& header) {
  if (session_ != nullptr) {
    return absl::InvalidArgumentError(
        "a second header; an upload has one, in its first message");
  }
  ASSIGN_OR_RETURN(UploadHeader upload,
                   ToUploadHeader(header, handler_->limits_));
  RETURN_IF_ERROR(CheckWanted());
  name_ = upload.binding.name;
  upload.may_continue =
      upload.expected_id.has_value() && handler_->table_->keeps_any();
  return StartUpload(std::move(upload));
}

absl::Status LoadWeightsCall::StartUpload(UploadHeader upload) {
  if (upload.may_continue && !TakeClaim(upload)) {
    header_ = std::move(upload);
    return absl::OkStatus();
  }
  const WeightsLimits& limits = handler_->limits_;
  if (claim_) session_ = claim_->TakeSession();
  if (session_ != nullptr) {
    LogBegin(upload.spec);
    handler_->services_.metrics->UploadContinued();
    return session_->Continue(peer()->principal.get(), upload, limits);
  }
  ASSIGN_OR_RETURN(UploadSession::Started started,
                   UploadSession::Start(peer()->principal.get(), upload, limits,
                                        handler_->backend_, handler_->store_));
  if (auto* const held = std::get_if<Deduplicated>(&started)) {
    deduplicated_ = std::move(*held);
  } else {
    session_ = std::get<std::unique_ptr<UploadSession>>(std::move(started));
    LogBegin(upload.spec);
  }
  return absl::OkStatus();
}

bool LoadWeightsCall::TakeClaim(const UploadHeader& header) {
  {
    MutexLock lock(&mutex_);
    turn_ = Turn::kAwaited;  // first, as it may come at once
  }
  const std::weak_ptr<LoadWeightsCall> weak = weak_from_this();
  UploadTable::Claimant claimant;
  claimant.give_way = [weak] {
    const auto call = weak.lock();
    if (call == nullptr) return;
    call->Abort(
        absl::AbortedError("this client continues the upload in another call"));
  };
  claimant.on_turn = [weak] {
    if (const auto call = weak.lock()) call->OnTurn();
  };
  const UploadKey key = {std::string(OwnerIdOf(peer()->principal.get())),
                         *header.expected_id};
  claim_ = handler_->table_->Acquire(key, std::move(claimant),
                                     header.resume_bytes.has_value()
                                         ? UploadTable::Urgency::kTakesOver
                                         : UploadTable::Urgency::kWaits);
  if (!claim_) return false;
  MutexLock lock(&mutex_);
  turn_ = Turn::kNone;
  return true;
}

void LoadWeightsCall::OnTurn() {
  MutexLock lock(&mutex_);
  if (turn_ != Turn::kAwaited) return;
  turn_ = Turn::kCome;
  WakeWorker();
}

absl::Status LoadWeightsCall::AppendChunk(const v1::WeightsChunk& chunk) {
  if (session_ == nullptr) {
    return absl::InvalidArgumentError(
        "a chunk without a header; the first message must hold the header");
  }
  ASSIGN_OR_RETURN(const UploadChunk upload, ToUploadChunk(chunk));
  RETURN_IF_ERROR(session_->Append(upload));
  if (claim_) claim_->SetReceived(session_->received_bytes());
  consumed_bytes_.fetch_add(static_cast<int64_t>(upload.bytes.size()),
                            std::memory_order_relaxed);
  handler_->services_.metrics->AddUploadedBytes(upload.bytes.size());
  return absl::OkStatus();
}

void LoadWeightsCall::LetGo(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      if (claim_) claim_->Keep(std::move(session_), peer()->principal);
      break;
    default:
      break;
  }
  session_.reset();
  claim_.reset();  // last: the next upload may have the session's file then
}

void LoadWeightsCall::LogBegin(const WeightsSpec& spec) const {
  EVENT(INFO, "upload_begun")
      .With("name", name_)
      .With("format", Name(spec.format))
      .With("n", spec.n)
      .With("k", spec.k)
      .With("bytes", TotalBytes(spec))
      .With("held", session_->received_bytes())
      .With("client", peer()->identity)
      .With("address", peer()->address);
}

v1::LoadWeightsResponse LoadWeightsCall::ToResponse(
    const UploadResult& result) const {
  v1::LoadWeightsResponse response;
  NamedWeights listing{result.weights, {}, 0};
  absl::StatusOr<NamedWeights> held =
      handler_->store_->Get(peer()->principal.get(), result.weights->id);
  if (held.ok()) listing = *std::move(held);
  ToMessage(listing, response.mutable_weights());
  response.set_deduplicated(result.deduplicated);
  response.set_flushed_blocks(result.flushed_blocks);
  return response;
}

}  // namespace qgemm
