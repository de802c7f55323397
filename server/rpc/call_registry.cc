// SPDX-License-Identifier: Apache-2.0
//
// Refusals that are held while connections are told of the shutdown.

#include "server/rpc/call_registry.h"

#include <utility>

#include "base/clock.h"
#include "rpc/grpc_status.h"

namespace qgemm {

void LiveCalls::BeginDrain(const absl::Status& refusal) {
  MutexLock lock(&mutex_);
  if (draining_) return;
  refusal_ = refusal;
  draining_ = true;
}

absl::Status LiveCalls::CheckServing() const {
  if (!draining_) return absl::OkStatus();
  MutexLock lock(&mutex_);
  return refusal_;
}

void LiveCalls::Refuse(absl::AnyInvocable<void()> refuse) {
  {
    MutexLock lock(&mutex_);
    if (holding_) {
      held_.push_back(std::move(refuse));
      refused_.SignalAll();
      return;
    }
  }
  refuse();
}

void LiveCalls::HoldRefusals(absl::Duration quiet, absl::Duration limit) {
  const SystemClock clock;
  const absl::Time end = clock.Now() + limit;
  MutexLock lock(&mutex_);
  holding_ = true;
  bool another = true;
  while (another && clock.Now() < end) {
    another = refused_.WaitFor(&mutex_, quiet);
  }
}

void LiveCalls::ReleaseRefusals() {
  std::vector<absl::AnyInvocable<void()>> refusals;
  {
    MutexLock lock(&mutex_);
    holding_ = false;
    refusals.swap(held_);
  }
  for (absl::AnyInvocable<void()>& refuse : refusals) refuse();
}

absl::Status OverQuota(absl::string_view identity, absl::string_view noun,
                       size_t quota) {
  return WithRetryDelay(absl::ResourceExhaustedError(absl::StrCat(
                            quota, " ", noun, " of \"", identity,
                            "\" are in progress, which is its quota (", noun,
                            " in the access table); try again later")),
                        kPlaceRetryDelay);
}

}  // namespace qgemm
