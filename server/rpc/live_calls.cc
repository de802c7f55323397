// SPDX-License-Identifier: Apache-2.0
//
// The count behind LiveCalls.

#include "server/rpc/live_calls.h"

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

void LiveCalls::WaitUntilNone() {
  MutexLock lock(&mutex_);
  while (count_ != 0) none_.Wait(&mutex_);
}

}  // namespace qgemm
