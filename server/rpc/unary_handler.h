// SPDX-License-Identifier: Apache-2.0
//
// Unary RPCs that are answered at once on the completion queue's thread. What
// they answer is in queries.h and debug_service.h.

#ifndef QGEMM_SERVER_RPC_UNARY_HANDLER_H_
#define QGEMM_SERVER_RPC_UNARY_HANDLER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "server/rpc/completion_queue.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/rpc_environment.h"

namespace qgemm {

// One RPC of the asynchronous Service. Thread-safe; must outlive the calls it
// accepts.
template <typename Service, typename Request, typename Response>
class UnaryHandler {
 public:
  // The generated method that waits for a call.
  using RequestMethod = void (Service::*)(
      grpc::ServerContext*, Request*,
      grpc::ServerAsyncResponseWriter<Response>*, grpc::CompletionQueue*,
      grpc::ServerCompletionQueue*, void*);
  // Answers; quick and thread-safe.
  using Answer =
      absl::AnyInvocable<absl::Status(const Request&, Response*) const>;

  // `environment` and `service` must outlive the handler; `name` is the RPC's.
  UnaryHandler(const RpcEnvironment* environment, Service* service,
               std::string name, RequestMethod method, Answer answer)
      : environment_(environment),
        service_(service),
        name_(std::move(name)),
        method_(method),
        answer_(std::move(answer)) {}

  // Waits for one more call on `queue`; each accepted call makes room for the
  // next.
  void Accept(CompletionQueue* queue) {
    std::make_shared<Call>(this, queue)->Accept();
  }

 private:
  class Call : public std::enable_shared_from_this<Call> {
   public:
    Call(UnaryHandler* handler, CompletionQueue* queue)
        : handler_(handler),
          queue_(queue),
          token_(handler->environment_->live_calls),
          responder_(&context_) {}

    void Accept() {
      (handler_->service_->*handler_->method_)(
          &context_, &request_, &responder_, queue_->queue(), queue_->queue(),
          accepted_tag_.Arm(this->shared_from_this()));
    }

   private:
    void OnAccepted(bool ok) {
      if (!ok) return;
      handler_->Accept(queue_);
      LiveCalls* const live_calls = handler_->environment_->live_calls;
      const absl::Status serving = live_calls->CheckServing();
      if (serving.ok()) {
        Finish(handler_->Run(request_, &response_));
        return;
      }
      live_calls->Refuse([self = this->shared_from_this(), serving] {
        self->Finish(serving);
      });
    }

    void Finish(const absl::Status& status) {
      void* const tag = finished_tag_.Arm(this->shared_from_this());
      if (status.ok()) {
        responder_.Finish(response_, grpc::Status::OK, tag);
      } else {
        responder_.FinishWithError(ToGrpcStatus(status), tag);
      }
    }

    void OnFinished(bool) {}

    UnaryHandler* const handler_;
    CompletionQueue* const queue_;
    const LiveCalls::Token token_;
    grpc::ServerContext context_;
    Request request_;
    Response response_;
    grpc::ServerAsyncResponseWriter<Response> responder_;
    CallTag<Call, &Call::OnAccepted> accepted_tag_;
    CallTag<Call, &Call::OnFinished> finished_tag_;
  };

  absl::Status Run(const Request& request, Response* response) {
    const absl::Time start = environment_->clock->Now();
    const absl::Status status = answer_(request, response);
    environment_->metrics->RpcEnded(name_, status.code(),
                                    environment_->clock->Now() - start);
    return status;
  }

  const RpcEnvironment* const environment_;
  Service* const service_;
  const std::string name_;
  const RequestMethod method_;
  const Answer answer_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_UNARY_HANDLER_H_
