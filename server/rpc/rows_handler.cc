// SPDX-License-Identifier: Apache-2.0
//
// One call object a call, on the steps of rows_call.h.

#include <memory>
#include <utility>

#include "server/rpc/handlers.h"
#include "server/rpc/rows_call.h"
#include "server/rpc/translate.h"
#include "server/weights/owners.h"

namespace qgemm {

// Parts in which the RPCs differ.
struct GemmRpc {
  using Request = v1::GemmRequest;
  using Response = v1::GemmResponse;
  static constexpr Rpc kRpc = {"Gemm", RpcAccess::Needs(Right::kCompute)};
  static constexpr auto kRequest = &AsyncQgemm::RequestGemm;
  static constexpr auto kParse = &ParseGemm;
};
struct RunRpc {
  using Request = v1::RunRequest;
  using Response = v1::RunResponse;
  static constexpr Rpc kRpc = {"Run", RpcAccess::Needs(Right::kCompute)};
  static constexpr auto kRequest = &AsyncQgemm::RequestRun;
  static constexpr auto kParse = &ParseRun;
};

template <typename Kind>
class RowsHandler<Kind>::Call final : public RowsCall {
 public:
  Call(RowsHandler* handler, CompletionQueue* queue)
      : RowsCall(handler->services_, handler->gemm_, Kind::kRpc, queue),
        handler_(handler) {}

 private:
  void Request(const AwaitedCall& call) override {
    (handler_->service_->*Kind::kRequest)(call.context, call.request,
                                          call.responder, call.queue,
                                          call.queue, call.tag);
  }

  void AcceptNext() override { handler_->Accept(queue()); }

  google::protobuf::Message* message() override { return &message_; }

  absl::StatusOr<GemmRequestBuilder> Parse(int64_t operand_bytes,
                                           const Peer& peer) override {
    return Kind::kParse(handler_->gemm_, message_, operand_bytes,
                        handler_->result_limit_, peer, nullptr);
  }

  void AnswerRows(const GemmTimings& timings, absl::Duration total,
                  StagedOperands operands, int64_t c_bytes) override {
    typename Kind::Response header;
    ToMessage(timings, total, header.mutable_timings());
    if (!ManagesAll(peer()->principal.get())) {
      // Others' requests may have shared the launch.
      header.mutable_timings()->clear_launch_rows();
      header.mutable_timings()->clear_launch_requests();
    }
    Answer(header, std::move(operands), c_bytes, total);
  }

  RowsHandler* const handler_;
  typename Kind::Request message_;
};

template <typename Kind>
RowsHandler<Kind>::RowsHandler(const CallServices& services,
                               const GemmServices& gemm, AsyncQgemm* service,
                               int64_t max_message_bytes)
    : services_(services),
      gemm_(gemm),
      service_(service),
      result_limit_(MessageResultLimit(max_message_bytes)) {}

template <typename Kind>
void RowsHandler<Kind>::Accept(CompletionQueue* queue) {
  std::make_shared<Call>(this, queue)->Accept();
}

template class RowsHandler<GemmRpc>;
template class RowsHandler<RunRpc>;

}  // namespace qgemm
