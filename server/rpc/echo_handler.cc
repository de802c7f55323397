// SPDX-License-Identifier: Apache-2.0
//
// One EchoCall a call, made like GemmCall so that both cost the same: the same
// gRPC operations, leases, copies and checks in the same order.

#include "server/rpc/echo_handler.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/rpc/gemm_plan.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/not_offered.h"
#include "server/rpc/operands.h"

namespace qgemm {
namespace {

absl::Status CheckSizes(const v1::EchoRequest& request, int64_t a_bytes,
                        int64_t max_message_bytes) {
  if (a_bytes == 0) {
    return absl::InvalidArgumentError("a has 0 bytes; it must have at least 1");
  }
  if (request.answer_bytes() == 0) {
    return absl::InvalidArgumentError(
        "answer_bytes = 0; it must be at least 1");
  }
  const int64_t limit = MaxResultBytes(max_message_bytes);
  if (request.answer_bytes() > static_cast<uint64_t>(limit)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("answer_bytes = ", request.answer_bytes(), " is beyond ",
                     limit, ": the server sends messages of at most ",
                     max_message_bytes, " bytes (--max_message_bytes)"));
  }
  return absl::OkStatus();
}

class EchoCall : public std::enable_shared_from_this<EchoCall> {
 public:
  EchoCall(EchoHandler* handler, const RpcEnvironment& environment,
           CompletionQueue* queue)
      : handler_(handler),
        environment_(environment),
        queue_(queue),
        token_(environment.live_calls),
        responder_(&context_) {}

  void Accept(AsyncQgemmDebug* service) {
    context_.AsyncNotifyWhenDone(done_tag_.Arm(shared_from_this()));
    service->RequestEcho(&context_, &received_, &responder_, queue_->queue(),
                         queue_->queue(),
                         accepted_tag_.Arm(shared_from_this()));
  }

 private:
  void OnAccepted(bool ok) {
    if (!ok) {  // the server shut down; gRPC will not return the done tag
      done_tag_.Disarm();
      return;
    }
    handler_->Accept(queue_);
    arrival_ = environment_.clock->Now();
    const absl::Status serving = environment_.live_calls->CheckServing();
    if (!serving.ok()) {
      environment_.live_calls->Refuse([self = shared_from_this(), serving] {
        self->FinishWithError(serving, ToGrpcStatus(serving));
      });
      return;
    }
    const absl::Status accepted = ReadRequest();
    if (!accepted.ok()) {
      FinishWithError(accepted, ToGrpcStatus(accepted));
      return;
    }
    absl::StatusOr<StagingLease> echoed = Echo();
    if (!echoed.ok()) {
      FinishWithError(echoed.status(), ToRetryableIfExhausted(echoed.status()));
      return;
    }
    Finish(*std::move(echoed));
  }

  absl::Status ReadRequest() {
    if (!environment_.options.enable_echo) return NotOffered(kEchoPath);
    RETURN_IF_ERROR(ReadOperand(environment_, &received_, &message_, &a_));
    return CheckSizes(message_, a_.bytes,
                      environment_.options.max_message_bytes);
  }

  // Moves the bytes to the backend's memory; other such memory to answer from.
  absl::StatusOr<StagingLease> Echo() {
    Backend* const backend = environment_.backend;
    ASSIGN_OR_RETURN(const StagingLease a, backend->AcquireStaging(a_.bytes));
    ASSIGN_OR_RETURN(
        StagingLease c,
        backend->AcquireStaging(static_cast<int64_t>(message_.answer_bytes())));
    CopyPayload(a_, a.data());
    a_ = ReceivedPayload();
    received_.Clear();
    std::string().swap(*message_.mutable_a());  // clear() would keep it
    return c;
  }

  void Finish(StagingLease c) {
    const absl::Duration total = environment_.clock->Now() - arrival_;
    v1::EchoResponse header;
    header.set_server_ns(
        absl::ToInt64Nanoseconds(std::max(total, absl::ZeroDuration())));
    environment_.metrics->RpcEnded("Echo", absl::StatusCode::kOk, total);
    responder_.Finish(Answer(&header, std::move(c)), grpc::Status::OK,
                      finished_tag_.Arm(shared_from_this()));
  }

  grpc::ByteBuffer Answer(v1::EchoResponse* header, StagingLease c) const {
    const auto payload = absl::MakeConstSpan(c.data(), message_.answer_bytes());
    if (environment_.options.data_path == DataPath::kProtobuf) {
      header->mutable_c()->assign(payload.begin(), payload.end());
      return SerializeWhole(*header);
    }
    return WritePayloadMessage(*header, payload,
                               HeldWhileSent(environment_, std::move(c)));
  }

  void FinishWithError(const absl::Status& status,
                       const grpc::Status& grpc_status) {
    environment_.metrics->RpcEnded("Echo", status.code(),
                                   environment_.clock->Now() - arrival_);
    responder_.FinishWithError(grpc_status,
                               finished_tag_.Arm(shared_from_this()));
  }

  void OnFinished(bool) {}
  void OnDone(bool) {}

  EchoHandler* const handler_;
  const RpcEnvironment& environment_;
  CompletionQueue* const queue_;
  const LiveCalls::Token token_;
  absl::Time arrival_;

  grpc::ServerContext context_;
  grpc::ByteBuffer received_;
  v1::EchoRequest message_;  // without `a`
  ReceivedPayload a_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_;
  CallTag<EchoCall, &EchoCall::OnAccepted> accepted_tag_;
  CallTag<EchoCall, &EchoCall::OnDone> done_tag_;
  CallTag<EchoCall, &EchoCall::OnFinished> finished_tag_;
};

}  // namespace

void EchoHandler::Accept(CompletionQueue* queue) {
  std::make_shared<EchoCall>(this, *environment_, queue)->Accept(service_);
}

}  // namespace qgemm
