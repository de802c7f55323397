// SPDX-License-Identifier: Apache-2.0
//
// One EchoCall a call, on the steps of payload_call.h.

#include "server/rpc/echo_handler.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/rpc/gemm_plan.h"
#include "server/rpc/not_offered.h"
#include "server/rpc/payload_call.h"

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

class EchoCall final : public PayloadCall {
 public:
  EchoCall(EchoHandler* handler, const RpcEnvironment& environment,
           AsyncQgemmDebug* service, CompletionQueue* queue)
      : PayloadCall(environment, queue, "Echo"),
        handler_(handler),
        service_(service) {}

 private:
  void Await(const AwaitedCall& call) override {
    service_->RequestEcho(call.context, call.request, call.responder,
                          call.queue, call.queue, call.tag);
  }

  void AcceptNext() override { handler_->Accept(queue()); }

  void Serve() override {
    v1::EchoRequest message;
    const absl::Status accepted = ReadRequest(&message);
    if (!accepted.ok()) return Fail(accepted);
    const auto c_bytes = static_cast<int64_t>(message.answer_bytes());
    absl::StatusOr<StagedOperands> operands =
        AcquireOperands(environment(), payload().bytes, c_bytes);
    if (!operands.ok()) return FailRetryably(operands.status());
    TakePayload(operands->a.data());
    const absl::Duration total = Elapsed();
    v1::EchoResponse header;
    header.set_server_ns(
        absl::ToInt64Nanoseconds(std::max(total, absl::ZeroDuration())));
    Answer(&header, *std::move(operands), c_bytes, total);
  }

  absl::Status ReadRequest(v1::EchoRequest* message) {
    if (!environment().options.enable_echo) return NotOffered(kEchoPath);
    RETURN_IF_ERROR(Read(message));
    return CheckSizes(*message, payload().bytes,
                      environment().options.max_message_bytes);
  }

  EchoHandler* const handler_;
  AsyncQgemmDebug* const service_;
};

}  // namespace

void EchoHandler::Accept(CompletionQueue* queue) {
  std::make_shared<EchoCall>(this, *environment_, service_, queue)->Accept();
}

}  // namespace qgemm
