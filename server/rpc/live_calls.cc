// SPDX-License-Identifier: Apache-2.0
//
// The held refusals behind LiveCalls.

#include "server/rpc/live_calls.h"

#include <utility>

#include "absl/time/clock.h"

namespace qgemm {

void LiveCalls::BeginDrain() { draining_ = true; }

absl::Status LiveCalls::CheckServing() const {
  if (!draining_) return absl::OkStatus();
  return absl::UnavailableError(
      "the server is draining and takes no new requests");
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
  const absl::Time end = absl::Now() + limit;
  MutexLock lock(&mutex_);
  holding_ = true;
  bool another = true;
  while (another && absl::Now() < end) {
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

}  // namespace qgemm
