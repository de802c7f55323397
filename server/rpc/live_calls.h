// SPDX-License-Identifier: Apache-2.0
//
// Counts call objects that a completion queue may still complete, and refuses
// calls while the server drains. Draining's steps are in server.cc.

#ifndef QGEMM_SERVER_RPC_LIVE_CALLS_H_
#define QGEMM_SERVER_RPC_LIVE_CALLS_H_

#include <atomic>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/live_count.h"
#include "base/mutex.h"

namespace qgemm {

// Thread-safe. Must outlive its tokens.
class LiveCalls {
 public:
  // Held by each call object from its making to its end.
  class Token {
   public:
    explicit Token(LiveCalls* live_calls) : count_(&live_calls->count_) {
      count_->Add();
    }
    Token(const Token&) = delete;
    Token& operator=(const Token&) = delete;
    ~Token() { count_->Remove(); }

   private:
    LiveCount* const count_;
  };

  // From now on CheckServing refuses.
  void BeginDrain();

  // OK, or UNAVAILABLE while the server drains.
  absl::Status CheckServing() const;

  // Ends a call that CheckServing refused: runs `refuse` at once, or when
  // held refusals are released.
  void Refuse(absl::AnyInvocable<void()> refuse);

  // Holds refusals from now on: a client that waits for its answer sends
  // nothing more meanwhile. Returns when none has come for `quiet`, or after
  // `limit`.
  void HoldRefusals(absl::Duration quiet, absl::Duration limit);
  void ReleaseRefusals();

  // Returns when no token is held.
  void WaitUntilNone() { count_.WaitUntilNone(); }

 private:
  std::atomic<bool> draining_{false};
  LiveCount count_;
  Mutex mutex_;
  CondVar refused_;
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<absl::AnyInvocable<void()>> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_LIVE_CALLS_H_
