// SPDX-License-Identifier: Apache-2.0
//
// Unary RPCs that are answered at once on the completion queue's thread.
// queries.h and debug_service.h have the answers.

#ifndef QGEMM_SERVER_RPC_UNARY_HANDLER_H_
#define QGEMM_SERVER_RPC_UNARY_HANDLER_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_unary_call.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/completion_queue.h"
#include "rpc/grpc_status.h"
#include "server/rpc/server_call.h"

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

  // `service` must outlive the handler; `name` is the RPC's.
  UnaryHandler(const CallServices& services, Service* service, std::string name,
               RequestMethod method, Answer answer)
      : services_(services),
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
  class Call final : public ServerCall<Call> {
   public:
    Call(UnaryHandler* handler, CompletionQueue* queue)
        : ServerCall<Call>(handler->services_.live_calls, queue),
          handler_(handler),
          responder_(this->context()) {}

   private:
    friend class ServerCall<Call>;

    void Await(void* tag) {
      grpc::ServerCompletionQueue* const queue = this->queue()->server_queue();
      (handler_->service_->*handler_->method_)(this->context(), &request_,
                                               &responder_, queue, queue, tag);
    }

    void AcceptNext() { handler_->Accept(this->queue()); }

    void Begin() {
      const absl::Status serving = this->live_calls()->CheckServing();
      if (!serving.ok()) return this->Refuse(serving);
      End(handler_->Run(request_, &response_));
    }

    void End(const absl::Status& status) {
      if (status.ok()) {
        responder_.Finish(response_, grpc::Status::OK, this->FinishTag());
      } else {
        responder_.FinishWithError(ToGrpcStatus(status), this->FinishTag());
      }
    }

    UnaryHandler* const handler_;
    Request request_;
    Response response_;
    grpc::ServerAsyncResponseWriter<Response> responder_;
  };

  absl::Status Run(const Request& request, Response* response) {
    const absl::Time start = services_.clock->Now();
    const absl::Status status = answer_(request, response);
    services_.metrics->RpcEnded(name_, status.code(),
                                services_.clock->Now() - start);
    return status;
  }

  const CallServices services_;
  Service* const service_;
  const std::string name_;
  const RequestMethod method_;
  const Answer answer_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_UNARY_HANDLER_H_
