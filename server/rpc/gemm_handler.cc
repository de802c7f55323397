// SPDX-License-Identifier: Apache-2.0
//
// One GemmCall a call, on the steps of payload_call.h.

#include "server/rpc/gemm_handler.h"

#include <atomic>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "base/task_runner.h"
#include "server/rpc/call_deadline.h"
#include "server/rpc/gemm_intake.h"
#include "server/rpc/payload_call.h"
#include "server/rpc/translate.h"

namespace qgemm {
namespace {

// Of A: some 200 us, twice what decode requests take all in all. Shorter copies
// are over before another thread would have begun with them.
constexpr int64_t kLongCopyBytes = int64_t{2} << 20;
// Of C: sent on a thread of its own, for the same reason.
constexpr int64_t kLongAnswerBytes = kLongCopyBytes;
// With so many waiting, a queue's thread copies itself and takes no more calls
// meanwhile: what waits holds its message's memory and is in no bound yet.
constexpr int64_t kMostWaitingCopies = 4;

class GemmCall final : public PayloadCall {
 public:
  GemmCall(GemmHandler* handler, const RpcEnvironment& environment,
           CompletionQueue* queue)
      : PayloadCall(environment, queue, "Gemm"), handler_(handler) {}

 private:
  void Await(const AwaitedCall& call) override {
    environment().service->RequestGemm(call.context, call.request,
                                       call.responder, call.queue, call.queue,
                                       call.tag);
  }

  void AcceptNext() override { handler_->Accept(queue()); }

  void Serve() override {
    const absl::Status parsed = Read(&message_);
    if (!parsed.ok()) return Fail(parsed);
    absl::StatusOr<GemmIntake> intake =
        TakeGemm(environment(), message_, payload().bytes,
                 MessageResultLimit(environment().options.max_message_bytes),
                 context().peer());
    if (!intake.ok()) return Fail(intake.status());
    // Before the copy, which an overloaded server has no time for.
    const absl::Status room = CheckRoom(environment(), *intake);
    if (!room.ok()) return FailRetryably(room);
    if (intake->plan.a_bytes < kLongCopyBytes ||
        handler_->copiers()->waiting() >= kMostWaitingCopies) {
      return StageAndEnqueue(*std::move(intake));
    }
    handler_->copiers()->Submit([self = shared_from_this(), this,
                                 taken = *std::move(intake)]() mutable {
      StageAndEnqueue(std::move(taken));
    });
  }

  void StageAndEnqueue(GemmIntake intake) {
    const absl::Status staged = Stage(&intake);
    if (!staged.ok()) return FailRetryably(staged);
    environment().scheduler->Enqueue(Complete(std::move(intake)));
  }

  // Moves the activations to the backend's memory.
  absl::Status Stage(GemmIntake* intake) {
    const GemmPlan& plan = intake->plan;
    ASSIGN_OR_RETURN(
        StagedOperands operands,
        AcquireOperands(environment(), plan.a_bytes, plan.c_bytes));
    TakePayload(operands.a.data());
    intake->request->a = std::move(operands.a);
    intake->request->c = std::move(operands.c);
    return absl::OkStatus();
  }

  std::unique_ptr<GemmRequest> Complete(GemmIntake intake) {
    GemmRequest& request = *intake.request;
    request.arrival = arrival();
    request.deadline = DeadlineOf(context());
    request.cancelled = cancelled_;
    request.completion_executor = intake.plan.c_bytes < kLongAnswerBytes
                                      ? static_cast<TaskRunner*>(queue())
                                      : environment().answerers;
    request.done = [self = shared_from_this(), this,
                    c_bytes = intake.plan.c_bytes](
                       const absl::Status& status, const GemmTimings& timings,
                       std::unique_ptr<GemmRequest> ended) {
      StagedOperands operands = {std::move(ended->a), std::move(ended->c)};
      ended.reset();  // the weights, before their user hears of the end
      OnComputed(status, timings, std::move(operands), c_bytes);
    };
    return std::move(intake.request);
  }

  void OnComputed(const absl::Status& status, const GemmTimings& timings,
                  StagedOperands operands, int64_t c_bytes) {
    if (!status.ok()) {
      operands = StagedOperands();
      return FailRetryably(status);
    }
    const absl::Duration total = Elapsed();
    v1::GemmResponse header;
    ToMessage(timings, total, header.mutable_timings());
    Answer(&header, std::move(operands), c_bytes, total);
  }

  void CallerLeft() override { *cancelled_ = true; }

  GemmHandler* const handler_;
  v1::GemmRequest message_;  // the payload may borrow from it
  const std::shared_ptr<std::atomic<bool>> cancelled_ =
      std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

void GemmHandler::Accept(CompletionQueue* queue) {
  std::make_shared<GemmCall>(this, *environment_, queue)->Accept();
}

}  // namespace qgemm
