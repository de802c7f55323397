// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/payload_call.h"

#include <utility>

#include "server/rpc/grpc_status.h"

namespace qgemm {

PayloadCall::PayloadCall(const RpcEnvironment& environment,
                         CompletionQueue* queue, absl::string_view method)
    : environment_(environment),
      queue_(queue),
      method_(method),
      token_(environment.live_calls),
      responder_(&context_) {}

void PayloadCall::Accept() {
  context_.AsyncNotifyWhenDone(done_tag_.Arm(shared_from_this()));
  Await({&context_, &received_, &responder_, queue_->queue(),
         accepted_tag_.Arm(shared_from_this())});
}

void PayloadCall::OnAccepted(bool ok) {
  if (!ok) {  // the server shut down; gRPC will not return the done tag
    done_tag_.Disarm();
    return;
  }
  AcceptNext();
  arrival_ = environment_.clock->Now();
  const absl::Status serving = environment_.live_calls->CheckServing();
  if (!serving.ok()) {
    environment_.live_calls->Refuse(
        [self = shared_from_this(), serving] { self->Fail(serving); });
    return;
  }
  Serve();
}

absl::Status PayloadCall::Read(google::protobuf::Message* header) {
  return ReadOperand(environment_, &received_, header, &payload_);
}

void PayloadCall::TakePayload(uint8_t* destination) {
  CopyPayload(payload_, destination);
  payload_ = ReceivedPayload();
  received_.Clear();
}

absl::Duration PayloadCall::Elapsed() const {
  return environment_.clock->Now() - arrival_;
}

void PayloadCall::Answer(google::protobuf::Message* header,
                         StagedOperands operands, int64_t c_bytes,
                         absl::Duration total) {
  operands.a = StagingLease();
  environment_.metrics->RpcEnded(method_, absl::StatusCode::kOk, total);
  responder_.Finish(
      WriteAnswer(environment_, header, std::move(operands.c), c_bytes),
      grpc::Status::OK, finished_tag_.Arm(shared_from_this()));
}

void PayloadCall::Fail(const absl::Status& status) {
  End(status, ToGrpcStatus(status));
}

void PayloadCall::FailRetryably(const absl::Status& status) {
  End(status, ToRetryableIfExhausted(status));
}

void PayloadCall::End(const absl::Status& status,
                      const grpc::Status& grpc_status) {
  environment_.metrics->RpcEnded(method_, status.code(), Elapsed());
  responder_.FinishWithError(grpc_status,
                             finished_tag_.Arm(shared_from_this()));
}

void PayloadCall::OnDone(bool) {
  if (context_.IsCancelled()) CallerLeft();
}

}  // namespace qgemm
