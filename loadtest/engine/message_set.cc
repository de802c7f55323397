// SPDX-License-Identifier: Apache-2.0

#include "loadtest/engine/message_set.h"

#include <utility>

#include "client/gemm_wire.h"
#include "qgemm/v1/debug.pb.h"
#include "rpc/payload_message.h"

namespace qgemm::loadtest {

int MessageSet::AddOperand(std::vector<uint8_t> a) {
  operands_.push_back(
      std::make_shared<const std::vector<uint8_t>>(std::move(a)));
  return static_cast<int>(operands_.size()) - 1;
}

int MessageSet::AddGemm(GemmRequest request, int operand) {
  const auto a = operands_[operand];
  request.a = *a;
  messages_.push_back({&gemm_method_,
                       WritePayloadMessage(HeaderToWire(request), *a, [a] {}),
                       std::move(request)});
  return size() - 1;
}

int MessageSet::AddEcho(int operand, int64_t answer_bytes) {
  const auto a = operands_[operand];
  v1::EchoRequest request;
  request.set_answer_bytes(answer_bytes);
  messages_.push_back(
      {&echo_method_, WritePayloadMessage(request, *a, [a] {}), GemmRequest()});
  return size() - 1;
}

}  // namespace qgemm::loadtest
