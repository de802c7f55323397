// SPDX-License-Identifier: Apache-2.0
//
// The way of a message's bytes into staging, and the launch of an operand that
// has come whole. A short copy runs on the thread that read the message, a long
// one on the copiers; the stream reads nothing more until it is over.

#include <utility>

#include "absl/status/status.h"
#include "server/rpc/gemm_stream_call.h"
#include "server/rpc/handlers.h"
#include "server/rpc/operand_copiers.h"
#include "server/rpc/translate.h"

namespace qgemm {

void GemmStreamCall::StartCopy(Copy copy) {
  if (copy.bytes < kLongCopyBytes) {
    RunCopy(std::move(copy));
    return EndMessage(absl::OkStatus());
  }
  {
    MutexLock lock(&mutex_);
    reading_ = false;
    copying_ = true;
  }
  handler_->gemm_.copiers->Submit(
      [self = shared_from_this(), this, copy = std::move(copy)]() mutable {
        RunLongCopy(std::move(copy));
      });
}

void GemmStreamCall::RunLongCopy(Copy copy) {
  if (IsLive(copy.id)) {
    RunCopy(std::move(copy));
  } else {
    copy = Copy();  // its memory goes before the call does
  }
  EndMessage(absl::OkStatus());
}

void GemmStreamCall::RunCopy(Copy copy) {
  GemmRequestBuilder& builder = copy.arriving.builder;
  if (copy.is_first) {
    const absl::Status acquired = builder.AcquireA();
    if (!acquired.ok()) {
      return Fail(copy.id, acquired, RetryDelayFor(acquired));
    }
  }
  CopyPayload(a_, builder.a() + copy.offset);
  LaunchIfWhole(copy.id, std::move(copy.arriving));
}

bool GemmStreamCall::IsLive(uint64_t id) {
  MutexLock lock(&mutex_);
  return live_.count(id) != 0;
}

void GemmStreamCall::LaunchIfWhole(uint64_t id, Arriving arriving) {
  {
    MutexLock lock(&mutex_);
    const auto found = live_.find(id);
    if (found == live_.end()) return;  // refused meanwhile
    if (!ledger_.IsComplete(id)) {
      found->second.arriving = std::move(arriving);
      return;
    }
  }
  Launch(id, std::move(arriving));
}

void GemmStreamCall::Launch(uint64_t id, Arriving arriving) {
  const absl::Status acquired = arriving.builder.AcquireC();
  if (!acquired.ok()) return Fail(id, acquired, RetryDelayFor(acquired));
  const GemmSizes& sizes = arriving.builder.sizes();
  {
    MutexLock lock(&mutex_);
    ledger_.Hold(id, sizes.a_bytes + sizes.c_bytes);
  }
  std::move(arriving.builder).Enqueue();
}

}  // namespace qgemm
