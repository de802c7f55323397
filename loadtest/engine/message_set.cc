// SPDX-License-Identifier: Apache-2.0

#include "loadtest/engine/message_set.h"

#include <utility>

#include "client/gemm_wire.h"
#include "client/run_wire.h"
#include "qgemm/v1/debug.pb.h"
#include "rpc/payload_message.h"

namespace qgemm::loadtest {

void MessageSet::AddGemm(GemmRequest request, const Operand& a) {
  if (request.a.empty()) request.a = *a;
  const grpc::ByteBuffer bytes =
      WritePayloadMessage(HeaderToWire(request), request.a, [a] {});
  messages_.push_back({&gemm_method_, bytes, std::move(request), {}});
}

void MessageSet::AddRun(const RunRequest& request, const Operand& operand) {
  RunRequest borrowing = request;
  borrowing.inputs_released = [operand] {};
  messages_.push_back({&run_method_, ToWire(borrowing, InputsToWire(borrowing)),
                       GemmRequest(), request});
}

void MessageSet::AddEcho(const Operand& a, int64_t answer_bytes) {
  v1::EchoRequest request;
  request.set_answer_bytes(answer_bytes);
  messages_.push_back({&echo_method_, WritePayloadMessage(request, *a, [a] {}),
                       GemmRequest(), RunRequest()});
}

}  // namespace qgemm::loadtest
