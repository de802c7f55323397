// SPDX-License-Identifier: Apache-2.0
//
// Unary RPCs whose requests and answers are small, or bounded at least:
// answered at once, on the completion queue's thread or another. queries.h and
// debug_service.h have the answers.

#ifndef QGEMM_SERVER_RPC_UNARY_HANDLER_H_
#define QGEMM_SERVER_RPC_UNARY_HANDLER_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_unary_call.h>

#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/byte_budget.h"
#include "base/status_macros.h"
#include "base/task_runner.h"
#include "rpc/completion_queue.h"
#include "rpc/grpc_status.h"
#include "rpc/message_limits.h"
#include "rpc/payload_message.h"
#include "server/rpc/call_registry.h"
#include "server/rpc/operands.h"
#include "server/rpc/request_log.h"
#include "server/rpc/server_call.h"

namespace qgemm {

// The thread that makes answers that may be long, and the bounds of their bytes
// and of those that wait for it.
struct LongAnswers {
  // Makes the answers; null: the completion queue's thread. A long answer would
  // hold up the other calls of that.
  TaskRunner* runner = nullptr;
  // Bounds the answers that clients have not read yet, and those of one client;
  // null: not bounded.
  ByteBudget* budget = nullptr;
  ClientShare share;
  // The same for the requests that wait for the runner. A request beyond a
  // client's share is one that kRead refuses.
  ByteBudget* waiting_budget = nullptr;
  ClientShare waiting_share = {};
};

// Reads a request as those of most RPCs are bounded.
template <typename Request>
absl::Status ReadQuery(grpc::ByteBuffer* buffer, Request* request) {
  return ReadBoundedMessage(buffer, kMaxQueryBytes, request);
}

// Bytes that count for a client and in all. Gives them back when it goes.
class HeldBytes {
 public:
  // Errors: RESOURCE_EXHAUSTED, with the time to retry.
  absl::Status Take(std::shared_ptr<const Peer> peer, int64_t bytes,
                    ByteBudget* budget, const ClientShare& share) {
    ASSIGN_OR_RETURN(charge_,
                     ClientCharge::Take(std::move(peer), bytes, share));
    absl::StatusOr<ByteReservation> held = budget->Reserve(bytes);
    if (!held.ok()) return WithRetryDelay(held.status(), kPlaceRetryDelay);
    held_ = *std::move(held);
    return absl::OkStatus();
  }

 private:
  ClientCharge charge_;
  ByteReservation held_;
};

// One RPC of the asynchronous Service, which takes and gives bytes. kRead
// parses a request and bounds it. Thread-safe; must outlive the calls it
// accepts.
template <typename Service, typename Request, typename Response,
          absl::Status (*kRead)(grpc::ByteBuffer*, Request*) =
              &ReadQuery<Request>>
class UnaryHandler {
 public:
  // The generated method that waits for a call.
  using RequestMethod = void (Service::*)(
      grpc::ServerContext*, grpc::ByteBuffer*,
      grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>*,
      grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*);
  // Answers a client; thread-safe, and quick unless there is a runner.
  using Answer = absl::AnyInvocable<absl::Status(const Request&, const Peer&,
                                                 Response*) const>;

  // Logs a call that was answered.
  using Log = absl::AnyInvocable<void(const Request&, const Response&,
                                      const Peer&) const>;

  // `service`, runner and budget must outlive the handler; `log` may be null.
  UnaryHandler(const CallServices& services, Service* service, const Rpc& rpc,
               RequestMethod method, Answer answer,
               const LongAnswers& long_answers = {}, Log log = nullptr)
      : services_(services),
        service_(service),
        rpc_(rpc),
        method_(method),
        answer_(std::move(answer)),
        long_answers_(long_answers),
        log_(std::move(log)) {}

  // Waits for one more call on `queue`; each accepted call makes room for the
  // next.
  void Accept(CompletionQueue* queue) {
    std::make_shared<Call>(this, queue)->Accept();
  }

 private:
  class Call final : public ServerCall<Call> {
   public:
    Call(UnaryHandler* handler, CompletionQueue* queue)
        : ServerCall<Call>(handler->services_, handler->rpc_, queue),
          handler_(handler),
          responder_(this->context()) {}

   private:
    friend class ServerCall<Call>;

    void Await(void* tag) {
      grpc::ServerCompletionQueue* const queue = this->queue()->server_queue();
      (handler_->service_->*handler_->method_)(this->context(), &buffer_,
                                               &responder_, queue, queue, tag);
    }

    void AcceptNext() { handler_->Accept(this->queue()); }

    // A request is read here, in tenths of a millisecond at most, so that what
    // waits for the runner is counted, and what is refused does not wait.
    void Begin() {
      const absl::Status serving = this->live_calls()->CheckServing();
      if (!serving.ok()) return this->Refuse(serving);
      start_ = handler_->services_.clock->Now();
      const absl::Status read = Read();
      if (!read.ok()) return Finish(read, grpc::ByteBuffer());
      TaskRunner* const runner = handler_->long_answers_.runner;
      if (runner == nullptr) return Run();
      runner->Submit([call = this->shared_from_this()] { call->Run(); });
    }

    absl::Status Read() {
      const auto bytes = static_cast<int64_t>(buffer_.Length());
      const LongAnswers& bounds = handler_->long_answers_;
      if (bounds.waiting_budget != nullptr) {
        CountReceived();
        // kRead refuses what is beyond the share, without parsing it.
        if (bytes <= bounds.waiting_share.max_bytes) {
          RETURN_IF_ERROR(waiting_.Take(this->peer(), bytes,
                                        bounds.waiting_budget,
                                        bounds.waiting_share));
        }
      }
      return kRead(&buffer_, &request_);
    }

    void Run() {
      grpc::ByteBuffer answer;
      const absl::Status status = Make(&answer);
      waiting_ = HeldBytes();
      Finish(status, answer);
    }

    void Finish(const absl::Status& status, const grpc::ByteBuffer& answer) {
      handler_->services_.metrics->RpcEnded(
          handler_->rpc_.method, status.code(),
          handler_->services_.clock->Now() - start_);
      LogRefusal(handler_->rpc_.method, status,
                 [this] { return this->peer(); });
      if (!status.ok()) return End(status);
      responder_.Finish(answer, grpc::Status::OK, this->FinishTag());
    }

    absl::Status Make(grpc::ByteBuffer* answer) {
      Response response;
      RETURN_IF_ERROR(handler_->answer_(request_, *this->peer(), &response));
      const LongAnswers& bounds = handler_->long_answers_;
      if (bounds.budget != nullptr) {
        RETURN_IF_ERROR(unread_.Take(
            this->peer(), static_cast<int64_t>(response.ByteSizeLong()),
            bounds.budget, bounds.share));
      }
      *answer = WriteMessage(response);
      if (handler_->log_ != nullptr) {
        handler_->log_(request_, response, *this->peer());
      }
      return absl::OkStatus();
    }

    void Deny(const absl::Status& status) {
      if (handler_->long_answers_.waiting_budget != nullptr) CountReceived();
      End(status);
    }

    // For methods whose requests may be long.
    void CountReceived() {
      CountMessage(*this->peer(), Direction::kReceived,
                   static_cast<int64_t>(buffer_.Length()),
                   handler_->services_.metrics);
    }

    void End(const absl::Status& status) {
      responder_.FinishWithError(ToGrpcStatus(status), this->FinishTag());
    }

    UnaryHandler* const handler_;
    absl::Time start_;
    grpc::ByteBuffer buffer_;
    Request request_;
    HeldBytes waiting_;
    HeldBytes unread_;  // until the answer is sent
    grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_;
  };

  const CallServices services_;
  Service* const service_;
  const Rpc rpc_;
  const RequestMethod method_;
  const Answer answer_;
  const LongAnswers long_answers_;
  const Log log_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_UNARY_HANDLER_H_
