// SPDX-License-Identifier: Apache-2.0
//
// The LoadWeights RPC: bounds the uploads in progress and ends them when the
// server drains. One upload is in upload_call.h.

#ifndef QGEMM_SERVER_RPC_LOAD_WEIGHTS_HANDLER_H_
#define QGEMM_SERVER_RPC_LOAD_WEIGHTS_HANDLER_H_

#include <cstdint>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/worker_pool.h"
#include "server/rpc/completion_queue.h"
#include "server/rpc/rpc_environment.h"
#include "server/rpc/upload_call.h"

namespace qgemm {

// Thread-safe. Must outlive the calls it accepts.
class LoadWeightsHandler final : public UploadAdmission {
 public:
  // `environment` must outlive the handler.
  explicit LoadWeightsHandler(const RpcEnvironment* environment);

  // Waits for one more call on `queue`; each accepted call makes room for the
  // next.
  void Accept(CompletionQueue* queue) override;

  absl::Status Admit(const std::shared_ptr<UploadCall>& call) override;
  void Leave(UploadCall* call) override;

  // Ends every upload in progress with UNAVAILABLE.
  void EndUploads();

 private:
  const RpcEnvironment* const environment_;
  Mutex mutex_;
  std::map<UploadCall*, std::weak_ptr<UploadCall>> uploads_
      ABSL_GUARDED_BY(mutex_);
  WorkerPool workers_;  // last: its destructor runs what uploads left
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_LOAD_WEIGHTS_HANDLER_H_
