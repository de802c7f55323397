// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/payload_call.h"

#include <utility>

#include "absl/types/span.h"
#include "rpc/grpc_status.h"
#include "server/rpc/request_log.h"
#include "server/rpc/translate.h"

namespace qgemm {
namespace {

// A long answer goes out in slices, each of which is progress: a client that
// reads one within --idle_timeout, at 35 KB/s, keeps its call.
constexpr int64_t kSliceBytes = int64_t{1} << 20;

}  // namespace

PayloadCall::PayloadCall(const CallServices& services, const Rpc& rpc,
                         CompletionQueue* queue)
    : ServerCall(services, rpc, queue),
      services_(services),
      method_(rpc.method),
      responder_(context()) {}

void PayloadCall::Await(void* tag) {
  Request({context(), &received_, &responder_, queue()->server_queue(), tag});
}

void PayloadCall::Begin() {
  arrival_ = services_.clock->Now();
  const absl::Status serving = live_calls()->CheckServing();
  if (!serving.ok()) return Refuse(serving);
  Serve();
}

// Counts what has come as delivered, or its connection would seem to hold it.
void PayloadCall::Deny(const absl::Status& status) {
  CountMessage(*peer(), Direction::kReceived,
               static_cast<int64_t>(received_.Length()), services_.metrics);
  responder_.FinishWithError(ToGrpcStatus(status), FinishTag());
}

absl::Status PayloadCall::Read(google::protobuf::Message* header) {
  CountMessage(*peer(), Direction::kReceived,
               static_cast<int64_t>(received_.Length()), services_.metrics);
  return ReadPayloadMessage(&received_, header, &payload_);
}

void PayloadCall::TakePayload(uint8_t* destination) {
  CopyPayload(payload_, destination);
  payload_ = ReceivedPayload();
  received_.Clear();
}

absl::Duration PayloadCall::Elapsed() const {
  return services_.clock->Now() - arrival_;
}

void PayloadCall::Answer(const google::protobuf::Message& header,
                         StagedOperands operands, int64_t c_bytes,
                         absl::Duration total) {
  operands.a = StagingLease();
  operands.charge.Shrink(c_bytes);
  services_.metrics->RpcEnded(method_, absl::StatusCode::kOk, total);
  const auto c = absl::MakeConstSpan(operands.c.data(), c_bytes);
  auto sent = std::make_shared<SentOperand>(live_calls(), std::move(operands.c),
                                            std::move(operands.charge));
  sent_ = sent;
  const grpc::ByteBuffer message =
      c_bytes <= kSliceBytes
          ? WritePayloadMessage(header, c,
                                SentOperand::Release(std::move(sent)))
          : WriteSlicedPayloadMessage(header, c, kSliceBytes, [&sent] {
              return SentOperand::Release(sent);
            });
  services_.metrics->AddTransportBytes(peer()->transport, Direction::kSent,
                                       static_cast<int64_t>(message.Length()));
  responder_.Finish(message, grpc::Status::OK, FinishTag());
}

void PayloadCall::End(const absl::Status& status) {
  EndWith(status, absl::ZeroDuration());
}

void PayloadCall::EndRetryably(const absl::Status& status) {
  EndWith(status, RetryDelayFor(status));
}

void PayloadCall::EndWith(const absl::Status& status,
                          absl::Duration retry_delay) {
  services_.metrics->RpcEnded(method_, status.code(), Elapsed());
  LogRefusal(method_, status, [this] { return peer(); });
  responder_.FinishWithError(ToGrpcStatus(status, retry_delay), FinishTag());
}

void PayloadCall::OnDone() {
  if (context()->IsCancelled()) CallerLeft();
}

AnswerProgress PayloadCall::Sent() const {
  const std::shared_ptr<SentOperand> sent = sent_.lock();
  if (sent == nullptr) return {};
  return {sent->slices_sent(), sent->size_bytes()};
}

}  // namespace qgemm
