// SPDX-License-Identifier: Apache-2.0
//
// One call of a unary method whose request and answer carry an operand: the
// steps that Gemm and Echo, its baseline, have in common, and in one order, so
// that both cost the same.

#ifndef QGEMM_SERVER_RPC_PAYLOAD_CALL_H_
#define QGEMM_SERVER_RPC_PAYLOAD_CALL_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_unary_call.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/completion_queue.h"
#include "rpc/payload_message.h"
#include "server/rpc/operands.h"
#include "server/rpc/server_call.h"

namespace qgemm {

// Arguments of gRPC's Request methods.
struct AwaitedCall {
  grpc::ServerContext* context;
  grpc::ByteBuffer* request;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>* responder;
  grpc::ServerCompletionQueue* queue;
  void* tag;
};

// Serve may keep references of its own. Answer, End or EndRetryably ends the
// call, once, on any thread.
class PayloadCall : public ServerCall<PayloadCall, WhenDone::kNotified> {
 public:
  virtual ~PayloadCall() = default;

 protected:
  // All must outlive the call.
  PayloadCall(const CallServices& services, const Rpc& rpc,
              CompletionQueue* queue);

  // Hands the call to gRPC's Request method.
  virtual void Request(const AwaitedCall& call) = 0;
  // Accepts another call on the same queue.
  virtual void AcceptNext() = 0;
  // Handles a request of a server that serves; ends it, now or later.
  virtual void Serve() = 0;
  // The call ended before it was answered.
  virtual void CallerLeft() {}

  absl::Time arrival() const { return arrival_; }

  // Reads the request. The operand borrows from the call and from `header`.
  // Errors: INVALID_ARGUMENT if it does not parse.
  absl::Status Read(google::protobuf::Message* header);
  const ReceivedPayload& payload() const { return payload_; }
  // Copies the operand out; gRPC's memory of it goes.
  void TakePayload(uint8_t* destination);

  // From the request's arrival until now.
  absl::Duration Elapsed() const;

  // `total` is Elapsed, or some moments ago.
  void Answer(const google::protobuf::Message& header, StagedOperands operands,
              int64_t c_bytes, absl::Duration total);
  // Keeps the retry delay that the status may have.
  void End(const absl::Status& status);
  // For a request that may lack memory or a place in the queue.
  void EndRetryably(const absl::Status& status);

 private:
  friend class ServerCall<PayloadCall, WhenDone::kNotified>;

  void Await(void* tag);
  void Begin();
  void Deny(const absl::Status& status);
  void OnDone();
  AnswerProgress Sent() const;
  void EndWith(const absl::Status& status, absl::Duration retry_delay);

  const CallServices services_;
  const absl::string_view method_;
  absl::Time arrival_;
  grpc::ByteBuffer received_;
  ReceivedPayload payload_;
  std::weak_ptr<SentOperand> sent_;  // set before the answer's Finish
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_PAYLOAD_CALL_H_
