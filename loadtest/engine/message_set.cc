// SPDX-License-Identifier: Apache-2.0

#include "loadtest/engine/message_set.h"

#include <utility>

#include "client/gemm_wire.h"
#include "qgemm/v1/debug.pb.h"
#include "rpc/payload_message.h"

namespace qgemm::loadtest {

void MessageSet::AddGemm(GemmRequest request, Operand a) {
  request.a = *a;
  grpc::ByteBuffer bytes =
      WritePayloadMessage(HeaderToWire(request), *a, [a] {});
  messages_.push_back({&gemm_method_, std::move(bytes), std::move(request)});
}

void MessageSet::AddEcho(Operand a, int64_t answer_bytes) {
  v1::EchoRequest request;
  request.set_answer_bytes(answer_bytes);
  messages_.push_back(
      {&echo_method_, WritePayloadMessage(request, *a, [a] {}), GemmRequest()});
}

}  // namespace qgemm::loadtest
