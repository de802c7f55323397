// SPDX-License-Identifier: Apache-2.0
//
// The calls of LoadWeights, and the workers that they share.

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "server/rpc/handlers.h"
#include "server/rpc/load_weights_call.h"

namespace qgemm {

LoadWeightsHandler::LoadWeightsHandler(const CallServices& services,
                                       const UploadParts& parts,
                                       UploadTable* table, AsyncQgemm* service,
                                       const RpcOptions& options)
    : services_(services),
      backend_(parts.backend),
      store_(parts.store),
      table_(table),
      service_(service),
      limits_(options.weights_limits),
      uploads_(services.live_calls, static_cast<size_t>(options.max_uploads)),
      workers_(options.max_uploads) {}

LoadWeightsHandler::~LoadWeightsHandler() = default;

void LoadWeightsHandler::Accept(CompletionQueue* queue) {
  std::make_shared<LoadWeightsCall>(this, queue)->Accept();
}

void LoadWeightsHandler::EndUploads(const absl::Status& reason) {
  for (const std::shared_ptr<LoadWeightsCall>& call : uploads_.Calls()) {
    call->Abort(reason);
  }
}

}  // namespace qgemm
