// SPDX-License-Identifier: Apache-2.0

#include <memory>
#include <utility>

#include "server/rpc/gemm_stream_call.h"
#include "server/rpc/handlers.h"

namespace qgemm {
namespace {

ByteBudgetOptions PartialOperandBudget(int64_t max_queued_bytes) {
  ByteBudgetOptions budget;
  budget.name = "memory of operands that have come in part";
  budget.limit_bytes = max_queued_bytes;
  budget.advice = "try again later, or raise --max_queued_bytes";
  return budget;
}

}  // namespace

GemmStreamHandler::GemmStreamHandler(const CallServices& services,
                                     const GemmServices& gemm,
                                     AsyncQgemm* service,
                                     const RpcOptions& options)
    : services_(services),
      gemm_(gemm),
      service_(service),
      options_(options),
      partial_operands_(PartialOperandBudget(options.max_queued_bytes)),
      calls_(services.live_calls) {}

void GemmStreamHandler::Accept(CompletionQueue* queue) {
  std::make_shared<GemmStreamCall>(this, queue)->Accept();
}

void GemmStreamHandler::BeginDrain() {
  for (const auto& call : calls_.Calls()) call->BeginDrain();
}

}  // namespace qgemm
