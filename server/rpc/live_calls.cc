// SPDX-License-Identifier: Apache-2.0
//
// The count and the held refusals behind LiveCalls.

#include "server/rpc/live_calls.h"

#include <utility>

#include "absl/time/clock.h"

namespace qgemm {

LiveCalls::Token::Token(LiveCalls* live_calls) : live_calls_(live_calls) {
  MutexLock lock(&live_calls_->mutex_);
  ++live_calls_->count_;
}

LiveCalls::Token::~Token() {
  MutexLock lock(&live_calls_->mutex_);
  if (--live_calls_->count_ == 0) live_calls_->none_.SignalAll();
}

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

void LiveCalls::WaitUntilNone() {
  MutexLock lock(&mutex_);
  while (count_ != 0) none_.Wait(&mutex_);
}

}  // namespace qgemm
