// SPDX-License-Identifier: Apache-2.0
//
// One call of a unary method whose request and answer carry an operand: the
// steps that Gemm and Echo, its yardstick, have in common, and in one order,
// so that both cost the same.

#ifndef QGEMM_SERVER_RPC_PAYLOAD_CALL_H_
#define QGEMM_SERVER_RPC_PAYLOAD_CALL_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/payload_message.h"
#include "server/rpc/completion_queue.h"
#include "server/rpc/live_calls.h"
#include "server/rpc/operands.h"
#include "server/rpc/rpc_environment.h"

namespace qgemm {

// What gRPC's Request methods take.
struct AwaitedCall {
  grpc::ServerContext* context;
  grpc::ByteBuffer* request;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>* responder;
  grpc::ServerCompletionQueue* queue;
  void* tag;
};

// gRPC's operations and what Serve started each hold a reference; the last one
// to end frees the call. Answer or Fail ends it, once, on any thread.
class PayloadCall : public std::enable_shared_from_this<PayloadCall> {
 public:
  virtual ~PayloadCall() = default;

  // Waits for a call.
  void Accept();

 protected:
  // All must outlive the call; `method` is the RPC's name in metrics.
  PayloadCall(const RpcEnvironment& environment, CompletionQueue* queue,
              absl::string_view method);

  // Hands the call to gRPC's Request method.
  virtual void Await(const AwaitedCall& call) = 0;
  // Makes room for one more call.
  virtual void AcceptNext() = 0;
  // The server serves and a request came: ends it, now or later.
  virtual void Serve() = 0;
  // The call ended before it was answered.
  virtual void CallerLeft() {}

  const RpcEnvironment& environment() const { return environment_; }
  CompletionQueue* queue() const { return queue_; }
  const grpc::ServerContext& context() const { return context_; }
  absl::Time arrival() const { return arrival_; }

  // Reads the request. The operand borrows from the call and from `header`.
  // Errors: INVALID_ARGUMENT if it does not parse.
  absl::Status Read(google::protobuf::Message* header);
  const ReceivedPayload& payload() const { return payload_; }
  // Copies the operand; gRPC's memory of it goes.
  void TakePayload(uint8_t* destination);

  // From the request's arrival until now.
  absl::Duration Elapsed() const;

  // `total` is Elapsed, or some moments ago.
  void Answer(google::protobuf::Message* header, StagedOperands operands,
              int64_t c_bytes, absl::Duration total);
  void Fail(const absl::Status& status);
  // For a request that may lack memory or a place in the queue.
  void FailRetryably(const absl::Status& status);

 private:
  void OnAccepted(bool ok);
  void OnFinished(bool) {}
  void OnDone(bool);
  void End(const absl::Status& status, const grpc::Status& grpc_status);

  const RpcEnvironment& environment_;
  CompletionQueue* const queue_;
  const absl::string_view method_;
  const LiveCalls::Token token_;
  absl::Time arrival_;

  grpc::ServerContext context_;
  grpc::ByteBuffer received_;
  ReceivedPayload payload_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_;
  CallTag<PayloadCall, &PayloadCall::OnAccepted> accepted_tag_;
  CallTag<PayloadCall, &PayloadCall::OnDone> done_tag_;
  CallTag<PayloadCall, &PayloadCall::OnFinished> finished_tag_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_PAYLOAD_CALL_H_
