// SPDX-License-Identifier: Apache-2.0
//
// One call object a call, on the steps of payload_call.h.

#include <atomic>
#include <memory>
#include <utility>

#include "rpc/grpc_status.h"
#include "server/rpc/handlers.h"
#include "server/rpc/operand_copiers.h"
#include "server/rpc/operands.h"
#include "server/rpc/payload_call.h"
#include "server/rpc/request_log.h"
#include "server/rpc/translate.h"

namespace qgemm {
namespace {

// A C of this size is sent on a thread of its own, for the reason of a copy's.
constexpr int64_t kLongAnswerBytes = kLongCopyBytes;

}  // namespace

class GemmHandler::Call final : public PayloadCall {
 public:
  Call(GemmHandler* handler, CompletionQueue* queue)
      : PayloadCall(handler->services_, queue, "Gemm"), handler_(handler) {}

 private:
  void Request(const AwaitedCall& call) override {
    handler_->service_->RequestGemm(call.context, call.request, call.responder,
                                    call.queue, call.queue, call.tag);
  }

  void AcceptNext() override { handler_->Accept(queue()); }

  void Serve() override {
    const absl::Status parsed = Read(&message_);
    if (!parsed.ok()) return End(parsed);
    const GemmServices& gemm = handler_->gemm_;
    std::shared_ptr<const Peer> peer = FindPeer();
    absl::StatusOr<GemmRequestBuilder> builder = ParseGemm(
        gemm, message_, payload().bytes, handler_->result_limit_, *peer);
    if (!builder.ok()) return End(builder.status());
    // Before the copy, which an overloaded server has no time for.
    const absl::Status room = builder->CheckRoom();
    if (!room.ok()) return EndRetryably(room);
    const GemmSizes& sizes = builder->sizes();
    absl::StatusOr<ClientCharge> charge =
        ClientCharge::Take(std::move(peer), sizes.a_bytes + sizes.c_bytes,
                           StagingShare(gemm.max_client_staging_bytes));
    if (!charge.ok()) return End(charge.status());
    charge_ = *std::move(charge);
    if (builder->sizes().a_bytes < kLongCopyBytes ||
        gemm.copiers->waiting() >= kMostWaitingCopies) {
      return StageAndEnqueue(*std::move(builder));
    }
    gemm.copiers->Submit([self = shared_from_this(), this,
                          parsed_builder = *std::move(builder)]() mutable {
      StageAndEnqueue(std::move(parsed_builder));
    });
  }

  // Moves the activations to the backend's memory.
  void StageAndEnqueue(GemmRequestBuilder builder) {
    absl::Status acquired = builder.AcquireA();
    if (acquired.ok()) acquired = builder.AcquireC();
    if (!acquired.ok()) {
      charge_ = ClientCharge();
      return EndRetryably(acquired);
    }
    TakePayload(builder.a());
    const int64_t c_bytes = builder.sizes().c_bytes;
    builder.SetCaller(
        Caller(c_bytes),
        [self = shared_from_this(), this, c_bytes](
            const absl::Status& status, const GemmTimings& timings,
            std::unique_ptr<AdmittedRequest> ended) {
          OnComputed(status, timings, std::move(ended), c_bytes);
        });
    std::move(builder).Enqueue();
  }

  GemmCaller Caller(int64_t c_bytes) {
    GemmCaller caller;
    caller.arrival = arrival();
    caller.deadline = DeadlineOf(*context(), handler_->services_.clock->Now());
    caller.cancelled = cancelled_;
    caller.completion_executor = c_bytes < kLongAnswerBytes
                                     ? static_cast<TaskRunner*>(queue())
                                     : handler_->gemm_.answer_executor;
    return caller;
  }

  void OnComputed(const absl::Status& status, const GemmTimings& timings,
                  std::unique_ptr<AdmittedRequest> ended, int64_t c_bytes) {
    StagedOperands operands = {std::move(ended->a), std::move(ended->c),
                               std::move(charge_)};
    const absl::Duration total = Elapsed();
    if (status.ok() && total >= handler_->services_.slow_request) {
      LogSlowRequest({"Gemm", *ended, timings, total}, *handler_->gemm_.store);
    }
    // Releases the weights before the client can see the answer: it may unload
    // them then.
    ended.reset();
    if (!status.ok()) {
      operands = StagedOperands();
      return EndRetryably(status);
    }
    v1::GemmResponse header;
    ToMessage(timings, total, header.mutable_timings());
    Answer(header, std::move(operands), c_bytes, total);
  }

  void CallerLeft() override { *cancelled_ = true; }

  GemmHandler* const handler_;
  v1::GemmRequest message_;  // the payload may borrow from it
  ClientCharge charge_;      // from the admission until the answer has it
  const std::shared_ptr<std::atomic<bool>> cancelled_ =
      std::make_shared<std::atomic<bool>>(false);
};

GemmHandler::GemmHandler(const CallServices& services, const GemmServices& gemm,
                         AsyncQgemm* service, int64_t max_message_bytes)
    : services_(services),
      gemm_(gemm),
      service_(service),
      result_limit_(MessageResultLimit(max_message_bytes)) {}

void GemmHandler::Accept(CompletionQueue* queue) {
  std::make_shared<Call>(this, queue)->Accept();
}

}  // namespace qgemm
