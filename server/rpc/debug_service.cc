// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/debug_service.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "server/rpc/not_offered.h"

namespace qgemm {
namespace {

constexpr uint64_t kMaxFreezeMilliseconds = 60'000;

absl::StatusOr<absl::Duration> FreezeTime(uint64_t milliseconds) {
  if (milliseconds == 0 || milliseconds > kMaxFreezeMilliseconds) {
    return absl::InvalidArgumentError(
        absl::StrCat("milliseconds = ", milliseconds, " is not between 1 and ",
                     kMaxFreezeMilliseconds));
  }
  return absl::Milliseconds(static_cast<int64_t>(milliseconds));
}

}  // namespace

DebugService::DebugService(const RpcEnvironment* environment)
    : environment_(environment),
      echo_(environment, &service_),
      freeze_(environment, &service_, "Freeze", &AsyncQgemmDebug::RequestFreeze,
              [this](const auto& request, auto*) { return Freeze(request); }) {}

bool DebugService::IsEnabled() const {
  const RpcOptions& options = environment_->options;
  return options.enable_echo || options.enable_freeze;
}

void DebugService::Register(grpc::ServerBuilder* builder) {
  if (IsEnabled()) builder->RegisterService(&service_);
}

void DebugService::Accept(CompletionQueue* queue, int echo_calls,
                          int freeze_calls) {
  if (!IsEnabled()) return;
  for (int i = 0; i < echo_calls; ++i) echo_.Accept(queue);
  for (int i = 0; i < freeze_calls; ++i) freeze_.Accept(queue);
}

absl::Status DebugService::Freeze(const v1::FreezeRequest& request) const {
  if (!environment_->options.enable_freeze) return NotOffered(kFreezePath);
  ASSIGN_OR_RETURN(const absl::Duration time,
                   FreezeTime(request.milliseconds()));
  environment_->scheduler->HoldLaunches(environment_->clock->Now() + time);
  return absl::OkStatus();
}

}  // namespace qgemm
