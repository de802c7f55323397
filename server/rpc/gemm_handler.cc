// SPDX-License-Identifier: Apache-2.0
//
// One GemmCall a call. gRPC's operations and the scheduler's request each hold
// a reference; the last one to end frees it.

#include "server/rpc/gemm_handler.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "server/rpc/call_deadline.h"
#include "server/rpc/gemm_plan.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/operands.h"
#include "server/rpc/translate.h"

namespace qgemm {
namespace {

class GemmCall : public std::enable_shared_from_this<GemmCall> {
 public:
  GemmCall(GemmHandler* handler, const RpcEnvironment& environment,
           CompletionQueue* queue)
      : handler_(handler),
        environment_(environment),
        queue_(queue),
        token_(environment.live_calls),
        responder_(&context_) {}

  void Accept() {
    context_.AsyncNotifyWhenDone(done_tag_.Arm(shared_from_this()));
    environment_.service->RequestGemm(&context_, &received_, &responder_,
                                      queue_->queue(), queue_->queue(),
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
    const absl::Status parsed =
        ReadOperand(environment_, &received_, &message_, &a_);
    if (!parsed.ok()) {
      FinishWithError(parsed, ToGrpcStatus(parsed));
      return;
    }
    absl::StatusOr<std::unique_ptr<GemmRequest>> request = MakeRequest();
    if (!request.ok()) {
      FinishWithError(request.status(), ToGrpcStatus(request.status()));
      return;
    }
    const absl::Status staged = Stage(request->get());
    if (!staged.ok()) {
      FinishWithError(staged, ToRetryableIfExhausted(staged));
      return;
    }
    environment_.scheduler->Enqueue(*std::move(request));
  }

  absl::StatusOr<std::unique_ptr<GemmRequest>> MakeRequest() {
    auto request = std::make_unique<GemmRequest>();
    ASSIGN_OR_RETURN(request->signature, ToSignature(message_));
    ASSIGN_OR_RETURN(const auto weights,
                     environment_.store->Find(message_.weights()));
    request->weights = weights->resident;
    ASSIGN_OR_RETURN(plan_, Plan(*request));
    RETURN_IF_ERROR(environment_.backend->CheckSupport(*request->weights,
                                                       request->signature));
    request->m = plan_.m;
    request->arrival = arrival_;
    request->deadline = DeadlineOf(context_);
    request->cancelled = cancelled_;
    request->done = [self = shared_from_this()](
                        const absl::Status& status, const GemmTimings& timings,
                        std::unique_ptr<GemmRequest> ended) {
      self->OnComputed(status, timings, std::move(ended));
    };
    return request;
  }

  absl::StatusOr<GemmPlan> Plan(const GemmRequest& request) const {
    GemmShape shape;
    shape.m = message_.m();
    shape.n = request.weights->n();
    shape.k = request.weights->k();
    shape.a_bytes = a_.bytes;
    shape.signature = request.signature;
    GemmLimits limits;
    limits.max_message_bytes = environment_.options.max_message_bytes;
    limits.max_batch_rows = environment_.backend->limits().max_batch_rows;
    return PlanGemm(shape, limits);
  }

  // Moves the activations to the backend's memory.
  absl::Status Stage(GemmRequest* request) {
    Backend* const backend = environment_.backend;
    ASSIGN_OR_RETURN(request->a, backend->AcquireStaging(plan_.a_bytes));
    ASSIGN_OR_RETURN(request->c, backend->AcquireStaging(plan_.c_bytes));
    CopyPayload(a_, request->a.data());
    a_ = ReceivedPayload();
    received_.Clear();
    std::string().swap(*message_.mutable_a());  // clear() would keep it
    return absl::OkStatus();
  }

  void OnComputed(const absl::Status& status, const GemmTimings& timings,
                  std::unique_ptr<GemmRequest> request) {
    if (!status.ok()) {
      request.reset();
      FinishWithError(status, ToRetryableIfExhausted(status));
      return;
    }
    StagingLease c = std::move(request->c);
    request.reset();
    const absl::Duration total = environment_.clock->Now() - arrival_;
    v1::GemmResponse header;
    ToMessage(timings, total, header.mutable_timings());
    environment_.metrics->RpcEnded("Gemm", absl::StatusCode::kOk, total);
    responder_.Finish(Answer(&header, std::move(c)), grpc::Status::OK,
                      finished_tag_.Arm(shared_from_this()));
  }

  grpc::ByteBuffer Answer(v1::GemmResponse* header, StagingLease c) const {
    const auto payload = absl::MakeConstSpan(c.data(), plan_.c_bytes);
    if (environment_.options.data_path == DataPath::kProtobuf) {
      header->mutable_c()->assign(payload.begin(), payload.end());
      return SerializeWhole(*header);
    }
    return WritePayloadMessage(*header, payload,
                               HeldWhileSent(environment_, std::move(c)));
  }

  void FinishWithError(const absl::Status& status,
                       const grpc::Status& grpc_status) {
    environment_.metrics->RpcEnded("Gemm", status.code(),
                                   environment_.clock->Now() - arrival_);
    responder_.FinishWithError(grpc_status,
                               finished_tag_.Arm(shared_from_this()));
  }

  void OnFinished(bool) {}

  void OnDone(bool) {
    if (context_.IsCancelled()) *cancelled_ = true;
  }

  GemmHandler* const handler_;
  const RpcEnvironment& environment_;
  CompletionQueue* const queue_;
  const LiveCalls::Token token_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ =
      std::make_shared<std::atomic<bool>>(false);
  absl::Time arrival_;
  GemmPlan plan_;

  grpc::ServerContext context_;
  grpc::ByteBuffer received_;
  v1::GemmRequest message_;  // without `a`
  ReceivedPayload a_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_;
  CallTag<GemmCall, &GemmCall::OnAccepted> accepted_tag_;
  CallTag<GemmCall, &GemmCall::OnDone> done_tag_;
  CallTag<GemmCall, &GemmCall::OnFinished> finished_tag_;
};

}  // namespace

void GemmHandler::Accept(CompletionQueue* queue) {
  std::make_shared<GemmCall>(this, *environment_, queue)->Accept();
}

}  // namespace qgemm
