// SPDX-License-Identifier: Apache-2.0
//
// The GemmStream RPC: admits its calls, tells them when the server drains, and
// bounds what they hold together. One call is in gemm_stream_call.h.

#ifndef QGEMM_SERVER_RPC_GEMM_STREAM_HANDLER_H_
#define QGEMM_SERVER_RPC_GEMM_STREAM_HANDLER_H_

#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "server/rpc/completion_queue.h"
#include "server/rpc/gemm_stream_call.h"
#include "server/rpc/partial_operands.h"
#include "server/rpc/rpc_environment.h"

namespace qgemm {

// Thread-safe. Must outlive the calls it accepts.
class GemmStreamHandler final : public StreamAdmission {
 public:
  // `environment` must outlive the handler.
  explicit GemmStreamHandler(const RpcEnvironment* environment)
      : environment_(environment),
        partial_operands_(environment->options.max_queued_bytes) {}

  // Waits for one more call on `queue`; each accepted call makes room for the
  // next.
  void Accept(CompletionQueue* queue) override;

  absl::Status Admit(const std::shared_ptr<GemmStreamCall>& call) override;
  void Leave(GemmStreamCall* call) override;

  // Has every call end as soon as what it accepted is answered.
  void BeginDrain();

 private:
  const RpcEnvironment* const environment_;
  PartialOperands partial_operands_;
  Mutex mutex_;
  std::map<GemmStreamCall*, std::weak_ptr<GemmStreamCall>> calls_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_GEMM_STREAM_HANDLER_H_
