// SPDX-License-Identifier: Apache-2.0

#include "loadtest/engine/message_set.h"

#include <utility>

#include "client/gemm_wire.h"
#include "qgemm/v1/debug.pb.h"
#include "qgemm/v1/qgemm.pb.h"

namespace qgemm {

int MessageSet::AddOperand(absl::Span<const uint8_t> a) {
  operands_.emplace_back(a.data(), a.size());
  return static_cast<int>(operands_.size()) - 1;
}

int MessageSet::AddGemm(GemmRequest options, int operand) {
  const grpc::Slice& a = operands_[operand];
  options.a = absl::MakeConstSpan(a.begin(), a.size());
  const grpc::Slice slices[2] = {PrefixToWire(options), a};
  options.a = absl::Span<const uint8_t>();
  messages_.push_back({&gemm_method_, grpc::ByteBuffer(slices, 2),
                       std::move(options), operand});
  return size() - 1;
}

GemmRequest MessageSet::gemm(int number) const {
  const Message& message = messages_[number];
  const grpc::Slice& a = operands_[message.operand];
  GemmRequest options = message.gemm;
  options.a = absl::MakeConstSpan(a.begin(), a.size());
  return options;
}

int MessageSet::AddEcho(int operand, int64_t answer_bytes) {
  const grpc::Slice& a = operands_[operand];
  static_assert(int{v1::EchoRequest::kAFieldNumber} ==
                    int{v1::GemmRequest::kAFieldNumber},
                "one prefix serves both messages");
  v1::EchoRequest request;
  request.set_answer_bytes(answer_bytes);
  const grpc::Slice slices[2] = {
      grpc::Slice(request.SerializeAsString() + PayloadPrefix(a.size())), a};
  messages_.push_back(
      {&echo_method_, grpc::ByteBuffer(slices, 2), GemmRequest(), operand});
  return size() - 1;
}

}  // namespace qgemm
