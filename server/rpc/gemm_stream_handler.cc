// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/gemm_stream_handler.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"

namespace qgemm {

void GemmStreamHandler::Accept(CompletionQueue* queue) {
  std::make_shared<GemmStreamCall>(this, environment_, &partial_operands_,
                                   queue)
      ->Accept();
}

absl::Status GemmStreamHandler::Admit(
    const std::shared_ptr<GemmStreamCall>& call) {
  MutexLock lock(&mutex_);
  // Under the lock that BeginDrain takes after the drain began: a call is
  // refused here or told there.
  RETURN_IF_ERROR(environment_->live_calls->CheckServing());
  calls_.emplace(call.get(), call);
  return absl::OkStatus();
}

void GemmStreamHandler::Leave(GemmStreamCall* call) {
  MutexLock lock(&mutex_);
  calls_.erase(call);
}

void GemmStreamHandler::BeginDrain() {
  std::vector<std::shared_ptr<GemmStreamCall>> calls;
  {
    MutexLock lock(&mutex_);
    for (const auto& [unused, weak] : calls_) {
      if (auto call = weak.lock()) calls.push_back(std::move(call));
    }
  }
  for (const std::shared_ptr<GemmStreamCall>& call : calls) call->BeginDrain();
}

}  // namespace qgemm
