// SPDX-License-Identifier: Apache-2.0

#include <memory>
#include <utility>

#include "server/rpc/gemm_stream_call.h"
#include "server/rpc/handlers.h"

namespace qgemm {
namespace {

// One client may open half of them.
CallLimit StreamLimit(int max_streams) {
  const auto most = static_cast<size_t>(max_streams);
  return {most, "streams", "--max_streams", (most + 1) / 2};
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
      calls_(services.live_calls, StreamLimit(options.max_streams)) {}

void GemmStreamHandler::Accept(CompletionQueue* queue) {
  std::make_shared<GemmStreamCall>(this, queue)->Accept();
}

void GemmStreamHandler::BeginDrain() {
  for (const auto& call : calls_.Calls()) call->BeginDrain();
}

}  // namespace qgemm
