// SPDX-License-Identifier: Apache-2.0
//
// One call object a call, on the steps of rows_call.h.

#include <memory>
#include <utility>

#include "server/rpc/handlers.h"
#include "server/rpc/rows_call.h"
#include "server/rpc/translate.h"

namespace qgemm {

class RunHandler::Call final : public RowsCall {
 public:
  Call(RunHandler* handler, CompletionQueue* queue)
      : RowsCall(handler->services_, handler->gemm_, queue, "Run"),
        handler_(handler) {}

 private:
  void Request(const AwaitedCall& call) override {
    handler_->service_->RequestRun(call.context, call.request, call.responder,
                                   call.queue, call.queue, call.tag);
  }

  void AcceptNext() override { handler_->Accept(queue()); }

  google::protobuf::Message* message() override { return &message_; }

  absl::StatusOr<GemmRequestBuilder> Parse(int64_t operand_bytes,
                                           const Peer& peer) override {
    return ParseRun(handler_->gemm_, message_, operand_bytes,
                    handler_->result_limit_, peer);
  }

  void AnswerRows(const GemmTimings& timings, absl::Duration total,
                  StagedOperands operands, int64_t c_bytes) override {
    v1::RunResponse header;
    ToMessage(timings, total, header.mutable_timings());
    Answer(header, std::move(operands), c_bytes, total);
  }

  RunHandler* const handler_;
  v1::RunRequest message_;
};

RunHandler::RunHandler(const CallServices& services, const GemmServices& gemm,
                       AsyncQgemm* service, int64_t max_message_bytes)
    : services_(services),
      gemm_(gemm),
      service_(service),
      result_limit_(MessageResultLimit(max_message_bytes)) {}

void RunHandler::Accept(CompletionQueue* queue) {
  std::make_shared<Call>(this, queue)->Accept();
}

}  // namespace qgemm
