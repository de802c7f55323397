// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/not_offered.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "server/rpc/grpc_status.h"

namespace qgemm {
namespace {

struct OptionalMethod {
  const char* path;
  const char* flag;
};

constexpr OptionalMethod kOptionalMethods[] = {
    {kEchoPath, "--enable_echo"}, {kFreezePath, "--enable_freeze"}};

}  // namespace

absl::Status NotOffered(absl::string_view path) {
  for (const OptionalMethod& method : kOptionalMethods) {
    if (path == method.path) {
      return absl::UnimplementedError(
          absl::StrCat(path, " is off; the server's flag ", method.flag,
                       " offers it, for tests and measurements"));
    }
  }
  return absl::UnimplementedError(
      absl::StrCat("the server has no method ", path));
}

class NotOfferedService::Call : public std::enable_shared_from_this<Call> {
 public:
  Call(NotOfferedService* service, CompletionQueue* queue)
      : service_(service),
        queue_(queue),
        token_(service->live_calls_),
        stream_(&context_) {}

  void Accept() {
    service_->service_.RequestCall(&context_, &stream_, queue_->queue(),
                                   queue_->queue(),
                                   accepted_tag_.Arm(shared_from_this()));
  }

 private:
  void OnAccepted(bool ok) {
    if (!ok) return;
    service_->Accept(queue_);
    stream_.Finish(ToGrpcStatus(NotOffered(context_.method())),
                   finished_tag_.Arm(shared_from_this()));
  }

  void OnFinished(bool) {}

  NotOfferedService* const service_;
  CompletionQueue* const queue_;
  const LiveCalls::Token token_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  CallTag<Call, &Call::OnAccepted> accepted_tag_;
  CallTag<Call, &Call::OnFinished> finished_tag_;
};

void NotOfferedService::Register(grpc::ServerBuilder* builder) {
  builder->RegisterAsyncGenericService(&service_);
}

void NotOfferedService::Accept(CompletionQueue* queue) {
  std::make_shared<Call>(this, queue)->Accept();
}

}  // namespace qgemm
