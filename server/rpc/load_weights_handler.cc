// SPDX-License-Identifier: Apache-2.0
//
// Admission of uploads.

#include "server/rpc/load_weights_handler.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace qgemm {

LoadWeightsHandler::LoadWeightsHandler(const RpcEnvironment* environment)
    : environment_(environment), workers_(environment->options.max_uploads) {}

void LoadWeightsHandler::Accept(CompletionQueue* queue) {
  std::make_shared<UploadCall>(this, environment_, &workers_, queue)->Accept();
}

absl::Status LoadWeightsHandler::Admit(
    const std::shared_ptr<UploadCall>& call) {
  MutexLock lock(&mutex_);
  // Under the lock that EndUploads takes after the drain began: an upload is
  // refused here or ended there.
  RETURN_IF_ERROR(environment_->live_calls->CheckServing());
  const int limit = environment_->options.max_uploads;
  if (uploads_.size() >= static_cast<size_t>(limit)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(uploads_.size(), " uploads are in progress and the limit ",
                     "is ", limit, " (--max_uploads); try again later"));
  }
  uploads_.emplace(call.get(), call);
  return absl::OkStatus();
}

void LoadWeightsHandler::Leave(UploadCall* call) {
  MutexLock lock(&mutex_);
  uploads_.erase(call);
}

void LoadWeightsHandler::EndUploads() {
  std::vector<std::shared_ptr<UploadCall>> calls;
  {
    MutexLock lock(&mutex_);
    for (const auto& [unused, weak] : uploads_) {
      if (auto call = weak.lock()) calls.push_back(std::move(call));
    }
  }
  for (const std::shared_ptr<UploadCall>& call : calls) {
    call->Refuse(absl::UnavailableError(
        "the server is draining; upload to another replica"));
  }
}

}  // namespace qgemm
